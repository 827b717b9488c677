// Beside each prediction of a chapter, a place for the reader's own; it stays in this browser.

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.labkit-predictions")) {
    for (const row of table.rows) {
      const cell = document.createElement(row.closest("thead") ? "th" : "td");
      if (row.closest("thead")) {
        cell.textContent = "you";
        cell.className = "head";
      } else {
        const input = document.createElement("input");
        const said = row.cells[0].textContent.trim();
        const key = `labkit-predict:${location.pathname.split("/").pop()}:${said}`;
        input.setAttribute("aria-label", `Your prediction: ${said}`);
        input.value = localStorage.getItem(key) ?? "";
        input.addEventListener("input", () => localStorage.setItem(key, input.value));
        cell.append(input);
      }
      row.cells[0].after(cell);
    }
  }
});
