// A formula, a table or opened code wider than the page scrolls inside its own box: let the keyboard
// reach it.

const BOXES = 'mjx-container[display="true"], .pst-scrollable-table-container, .labkit-table:not([role]), details pre';

// An observer reports a box once it is laid out; reading its width would force a layout at once.
const sizes = new ResizeObserver((seen) => {
  for (const { target: box } of seen) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});

window.addEventListener("load", () => document.querySelectorAll(BOXES).forEach((box) => sizes.observe(box)));
