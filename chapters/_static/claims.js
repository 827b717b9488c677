// Claims: open the card or the filter that an address names, filter the scoreboard, move through the cover's rows.

function openTarget() {
  const filter = location.hash.startsWith("#f:") && document.querySelector("form.labkit-filter");
  const target = filter || document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}

// The state stands in the address, as in #f:chapter=04&verdict=contradicted&q=warm-up. Values of one
// name are alternatives; every name must be met.
function filterClaims(form) {
  const folds = [...document.querySelectorAll("details.labkit-chapter")];
  const cards = [...document.querySelectorAll(".labkit-chapter .labkit-claim")];
  const texts = new Map(cards.map((card) => [card, card.textContent.toLowerCase()]));

  // Without a name, for the search of the site empties every field q.
  const field = form.querySelector("[type=search]");

  function read() {
    const wanted = new URLSearchParams(location.hash.startsWith("#f:") ? location.hash.slice(3) : "");
    field.value = wanted.get("q") ?? "";
    form.elements.chapter.value = wanted.get("chapter") ?? "";
    for (const chip of form.querySelectorAll("[type=checkbox]"))
      chip.checked = wanted.getAll(chip.name).includes(chip.value);
  }

  function show() {
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    if (field.value) wanted.set("q", field.value);
    const words = field.value.toLowerCase().split(/\s+/);
    const names = [...new Set(wanted.keys())].filter((name) => name !== "q");
    for (const card of cards)
      card.hidden = !(words.every((word) => texts.get(card).includes(word))
        && names.every((name) => wanted.getAll(name).includes(card.dataset[name])));
    for (const fold of folds) {
      fold.hidden = !fold.querySelector(".labkit-claim:not([hidden])");
      if (wanted.size) fold.open = true;
    }
    form.querySelector("output").value = `${cards.filter((card) => !card.hidden).length} of ${cards.length}`;
    return wanted;
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const wanted = show();
    history.replaceState(null, "", wanted.size ? `#f:${wanted}` : location.pathname);
  });
  addEventListener("hashchange", () => { read(); show(); });
  read();
  show();
}

// One stop of the Tab key a row; the arrow keys move on from there.
function walkRow(row) {
  const marks = [...row.children];
  marks.slice(1).forEach((mark) => { mark.tabIndex = -1; });
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step && marks[marks.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    marks.forEach((mark) => { mark.tabIndex = mark === next ? 0 : -1; });
    next.focus();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("form.labkit-filter").forEach(filterClaims);
  document.querySelectorAll(".labkit-matrix .marks").forEach(walkRow);
  openTarget();
  addEventListener("hashchange", openTarget);
});
