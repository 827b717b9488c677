// A formula or a table wider than the page scrolls inside its own box: let the keyboard reach it.

const BOXES = 'mjx-container[display="true"], .pst-scrollable-table-container, .labkit-table:not([role])';

// Observed and not asked: a box that has not been laid out yet would be, one by one.
const sizes = new ResizeObserver((seen) => {
  for (const { target: box } of seen) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});

window.addEventListener("load", () => document.querySelectorAll(BOXES).forEach((box) => sizes.observe(box)));
