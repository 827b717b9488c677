// Above a chapter: how much of its code to show. The choice holds for every page.

const KEY = "labkit-code";
const CHOICES = ["none", "essential", "all"];

function showCode(choice) {
  document.documentElement.dataset.code = choice;
  const folds = "div.cell > details.hide, .labkit-claim:has(.highlight), .labkit-more details"; // a card's code
  for (const fold of document.querySelectorAll(folds)) fold.open = choice === "all";
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.querySelector("div.cell > details.hide")) return; // a page without folded code
  const stored = read(KEY); // predict.js
  const chosen = CHOICES.includes(stored) ? stored : "essential";
  const choice = document.createElement("fieldset");
  choice.className = "labkit-code";
  choice.innerHTML = "<legend>Show code:</legend>" + CHOICES.map((name) =>
    `<label><input type="radio" name="code" value="${name}"${name === chosen ? " checked" : ""}> ${name}</label>`
  ).join("");
  choice.addEventListener("change", ({ target }) => {
    write(KEY, target.value);
    showCode(target.value);
  });
  document.querySelector(".labkit-facts").append(choice);
  if (chosen !== "essential") showCode(chosen);
});

// A search finds whole words and numbers: "S" is a size, no letter of a word; from four letters on a
// word may be longer. What has all words is shown, and a page only where no part of it has them.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const search = Search._performSearch;
  const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}’]+(\.\p{N}+)*/gu) ?? [];
  Search._performSearch = (query, ...terms) => {
    const found = search(query, ...terms).filter(([, title, , where, , , kind]) => kind !== "object"
      || split(query).every((word) => split(`${title} ${where}`).some((other) =>
        other === word || (/^\D{4}/.test(word) && other.startsWith(word)))));
    const told = new Set(found.filter((hit) => hit[6] === "object").flatMap(([page, , at]) => [page, page + at]));
    return found.filter(([page, , at, , , , kind]) =>
      kind === "object" || (kind === "title" && !at) || !told.has(page + at))
      .sort((one, other) => (other[6] === "text") - (one[6] === "text")).slice(-100); // the last comes first
  };
});
