// A formula or a table wider than the page scrolls inside its own box: let the keyboard reach it.

const BOXES = 'mjx-container[display="true"], .pst-scrollable-table-container, .labkit-table:not([role])';

function reachWideBoxes() {
  for (const box of document.querySelectorAll(BOXES)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

window.addEventListener("load", () => {
  reachWideBoxes();
  new ResizeObserver(reachWideBoxes).observe(document.body);
});
