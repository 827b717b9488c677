// A word of the glossary, or a citation, says what it means where it stands: under the pointer, under
// the keyboard's focus, and at a first tap (a second one follows the link).

let note = null;

function say(link) {
  hush();
  note = document.createElement("span");
  note.className = "labkit-note";
  note.id = "labkit-note";
  note.role = "tooltip";
  note.textContent = link.dataset.meaning;
  document.body.append(note);
  link.setAttribute("aria-describedby", note.id);
  const [line] = link.getClientRects(); // of a link over two lines the first
  const { width, height } = note.getBoundingClientRect();
  const left = Math.max(8, Math.min(line.left, document.documentElement.clientWidth - width - 8));
  const above = line.top - height - 6;
  note.style.left = `${left + scrollX}px`;
  note.style.top = `${(above > 0 ? above : line.bottom + 6) + scrollY}px`;
}

function hush() {
  document.querySelector("[aria-describedby=labkit-note]")?.removeAttribute("aria-describedby");
  note?.remove();
  note = null;
}

document.addEventListener("DOMContentLoaded", () => {
  // The browser's own note for a title comes late, and on a telephone never.
  for (const cited of document.querySelectorAll(".bd-article a.external[title]")) {
    cited.dataset.meaning = cited.title;
    cited.removeAttribute("title");
  }
  for (const link of document.querySelectorAll("a[data-meaning]")) {
    let tapped = false; // it was a finger that came, and nothing has been said yet
    link.addEventListener("pointerdown", (event) => {
      tapped = event.pointerType === "touch" && link.getAttribute("aria-describedby") === null;
    });
    link.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && say(link));
    link.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hush());
    link.addEventListener("focus", () => tapped || say(link));
    link.addEventListener("blur", hush);
    link.addEventListener("click", (event) => {
      if (!tapped) return;
      tapped = false;
      event.preventDefault();
      say(link);
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hush());
});
