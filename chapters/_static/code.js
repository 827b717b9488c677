// Above a chapter: how much of its code to show. The choice holds for every page.

const KEY = "labkit-code";
const CHOICES = ["none", "essential", "all"];

function readChoice() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser that stores nothing for this site
  }
}

function keepChoice(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // the choice holds for this page alone
  }
}

function showCode(choice) {
  document.documentElement.dataset.code = choice;
  const folds = "div.cell > details.hide, .labkit-claim:has(.highlight), .labkit-more details"; // a card's code
  for (const fold of document.querySelectorAll(folds)) fold.open = choice === "all";
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.querySelector("div.cell > details.hide")) return; // a page without folded code
  const stored = readChoice();
  const chosen = CHOICES.includes(stored) ? stored : "essential";
  const choice = document.createElement("fieldset");
  choice.className = "labkit-code";
  choice.innerHTML = "<legend>Code</legend>" + CHOICES.map((name) =>
    `<label><input type="radio" name="code" value="${name}"${name === chosen ? " checked" : ""}> ${name}</label>`
  ).join("");
  choice.addEventListener("change", ({ target }) => {
    keepChoice(target.value);
    showCode(target.value);
  });
  document.querySelector(".labkit-facts").append(choice);
  if (chosen !== "essential") showCode(chosen);
});

// What a search shows of a page is prose: its code is not in the index either.
if (typeof Search !== "undefined") {
  const read = Search.htmlToText;
  Search.htmlToText = (page, anchor) => read(page.replace(/<pre[^]*?<\/pre>/g, ""), anchor);
}
