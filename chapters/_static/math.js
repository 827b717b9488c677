// A formula wider than the page scrolls inside its own box: let the keyboard reach it.

function reachWideFormulas() {
  for (const box of document.querySelectorAll('mjx-container[display="true"]')) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

window.addEventListener("load", async () => {
  if (!window.MathJax?.startup?.promise) return; // a page without formulas
  await MathJax.startup.promise;
  reachWideFormulas();
  new ResizeObserver(reachWideFormulas).observe(document.body);
});
