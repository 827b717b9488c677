// Predictions: choose an answer to a question of a chapter, or ask to see it; then read on.
//
// A question is an element .labkit-asked; its attribute data-ask has the choices and which of them is
// right (press/site/predictions.py). What a reader chose stays in this browser, under one key. What
// follows an open question in its section is hidden (book.css). The page "Your predictions" shows
// all questions again, scored.

const STORE = "labkit-predictions"; // {claim: {state, mark, choice, at}}
const ALWAYS = "labkit-show-everything";

// -- what is kept --------------------------------------------------------------------------------
let kept = {}; // what this page knows; where the browser stores nothing, all there is
let refused = false;

function read(key) {
  try { return localStorage.getItem(key); } catch { refused = true; return null; }
}

function write(key, text) {
  try {
    if (text === null) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch { refused = true; }
}

function load() {
  const text = read(STORE);
  if (refused) return;
  try { kept = checked(JSON.parse(text ?? "{}")); } catch { kept = {}; } // not ours: begin anew
}

function keep(changes) {
  load(); // another tab may have locked something
  kept = { ...kept, ...changes };
  write(STORE, JSON.stringify(kept));
}

// Keep of a file or of the store what a prediction can be.
function checked(found) {
  const fine = ([, one]) => one && typeof one.mark === "string" && (one.state === "declined"
    || (one.state === "locked" && Number.isInteger(one.choice)));
  return Object.fromEntries(Object.entries(found ?? {}).filter(fine));
}

let always = read(ALWAYS) === "yes";
load();
document.documentElement.dataset.predict = always ? "show" : "ask"; // before the page is painted

function make(tag, className = "", text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// -- one question ----------------------------------------------------------------------------------
class Question {
  constructor(item) {
    this.item = item;
    this.ask = JSON.parse(item.dataset.ask);
    this.name = this.ask.claims[0];
    this.answer = item.querySelector(".labkit-answer");
  }

  // What was chosen of other choices, or for another question, is none of this one.
  get decision() {
    const one = kept[this.name];
    return one?.mark === this.ask.mark ? one : null;
  }

  isRight(one) { return one.choice === this.ask.right; }

  decide(changes) {
    keep({ [this.name]: { mark: this.ask.mark, at: new Date().toISOString(), ...changes } });
    refresh();
    this.result.focus();
  }

  build() {
    const text = this.item.querySelector("p");
    text.id ||= `${this.item.id}-asks`;
    const list = this.item.querySelector("ul");
    list.className = "labkit-choices";
    list.setAttribute("aria-labelledby", text.id);
    this.buttons = [...list.children].map((choice, i) => {
      const button = make("button", "", "", { type: "button" });
      button.append(...choice.childNodes);
      button.addEventListener("click", () => this.decide({ state: "locked", choice: i }));
      choice.append(button);
      return button;
    });
    this.decline = make("button", "quiet", "Show without predicting", { type: "button" });
    this.decline.addEventListener("click", () => this.decide({ state: "declined" }));
    this.result = make("p", "result", " ", { tabindex: "-1" });
    list.after(this.decline, this.result);
  }

  draw() {
    if (!this.buttons) this.build();
    const one = this.decision;
    const state = one?.state ?? (always ? "shown" : "open");
    if (this.item.dataset.state === state) return;
    this.item.dataset.state = state;
    this.answer.open = state !== "open";
    // First the answer, then what waited for it: a phone lays that out for long.
    requestAnimationFrame(() => setTimeout(() => { this.item.dataset.waits = state === "open"; }));
    this.buttons.forEach((button, i) => {
      button.disabled = state !== "open";
      button.classList.toggle("mine", one?.choice === i);
      button.classList.toggle("right", state !== "open" && i === this.ask.right);
    });
    const right = this.buttons[this.ask.right].textContent;
    const said = one?.state === "locked" ? (this.isRight(one) ? "So it is: " : "Not so: ") : "Measured: ";
    this.result.textContent = state === "open" ? "" : `${said}${right}.`;
  }
}

// -- a chapter -------------------------------------------------------------------------------------
let refresh = () => {};

function drawSwitch() {
  const label = make("label", "labkit-switch");
  const box = make("input", "", "", { type: "checkbox" });
  box.checked = always;
  box.addEventListener("change", () => {
    always = box.checked;
    write(ALWAYS, always ? "yes" : null);
    document.documentElement.dataset.predict = always ? "show" : "ask";
    document.querySelectorAll(".labkit-short").forEach((fold) => { fold.open = always; });
    refresh();
  });
  label.append(box, " Show everything, always");
  return label;
}

const MEMORY = "This browser stores nothing: your predictions last until you leave the page.";

function askReader(items) {
  const questions = items.map((item) => new Question(item));
  const foot = make("p", "labkit-how", "The result is below: choose first. ");
  foot.append(make("a", "", "Your predictions", { href: "predictions.html" }), " through the book. ", drawSwitch());
  const note = make("p", "labkit-refused", "", { role: "status" });
  items[0].append(foot, note);
  refresh = () => {
    questions.forEach((question) => question.draw());
    note.textContent = refused ? MEMORY : "";
  };
}

// -- the page of all predictions -------------------------------------------------------------------
const percent = (share) => `${Math.round(100 * share)} %`;
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

class Overview {
  constructor(page) {
    this.page = page;
    this.questions = [...document.querySelectorAll(".labkit-asked[data-ask]")].map((item) => new Question(item));
    this.chapters = [...document.querySelectorAll(".labkit-chapter")].map((fold) => ({
      fold, own: this.questions.filter((question) => fold.contains(question.item)),
    }));
    this.others = []; // [name, predictions] of files that were opened to compare
    this.scores = make("div", "labkit-scores");
    this.note = make("p", "labkit-refused", "", { role: "status" });
    page.append(this.scores, this.note, this.drawTools(), drawSwitch());
    for (const chapter of this.chapters) {
      chapter.bar = make("progress", "", "", { max: chapter.own.length, "aria-label": "questions decided" });
      chapter.count = make("span", "tally");
      const side = make("span", "labkit-progress");
      side.append(chapter.bar, chapter.count);
      chapter.fold.querySelector("summary").append(side);
    }
  }

  draw() {
    for (const question of this.questions) {
      const one = question.decision;
      question.item.querySelector(".labkit-seen")?.remove();
      question.item.dataset.state = one?.state ?? "open";
      if (one || always) question.item.append(this.drawAnswer(question));
    }
    for (const { fold, own, bar, count } of this.chapters) {
      const done = own.filter((question) => question.decision).length;
      bar.value = done;
      count.textContent = done === own.length ? "finished" : done ? `${done} of ${own.length}` : "not begun";
      fold.dataset.progress = done === own.length ? "finished" : done ? "begun" : "none";
    }
    this.scores.replaceChildren(...this.drawScores());
    if (refused) this.note.textContent = MEMORY;
  }

  // The choices, which is right, and who chose which.
  drawAnswer({ name, ask }) {
    const list = make("ul", "labkit-seen labkit-choices");
    ask.choices.forEach((text, i) => {
      const who = [["you", kept], ...this.others].filter(([, of]) => of[name]?.mark === ask.mark && of[name].choice === i);
      const said = [i === ask.right ? "measured" : "", ...who.map(([by]) => by)].filter(Boolean).join(", ");
      list.append(make("li", i === ask.right ? "right" : "", said ? `${text} (${said})` : text));
    });
    return list;
  }

  // The questions that somebody answered, each with the answer.
  list(predictions) {
    return this.questions.map((question) => [question, predictions[question.name]])
      .filter(([question, one]) => one?.mark === question.ask.mark && one.state === "locked");
  }

  drawScores() {
    const own = this.list(kept);
    const rows = own.length ? [this.sumUp("you", own)] : [];
    for (const [name, of] of this.others) {
      const theirs = this.list(of);
      rows.push(theirs.length ? this.sumUp(name, theirs) : [name, "0", "", ""]);
    }
    if (!rows.length) return [make("p", "", "You have locked no prediction yet. The questions stand in the chapters, above the results that answer them.")];
    for (const [who, by] of [["the authors", "authors"], ["the papers", "paper"]]) {
      const told = own.filter(([{ ask }]) => ask.forecasts?.[by] !== undefined);
      if (!told.length) continue;
      rows.push(this.score(`you, on sentences that ${who} forecast`, told.map(([{ ask }, one]) => [Number(ask.met[one.choice]), Number(ask.held)])),
        this.score(`${who}, on the same`, told.map(([{ ask }]) => [ask.forecasts[by], Number(ask.held)])));
    }
    const table = make("table");
    const head = ["by", "predictions", "right", "Brier score"];
    table.append(make("thead"), make("tbody"));
    table.tHead.append(this.drawRow("th", head, { scope: "col" }));
    table.tBodies[0].append(...rows.map((row) => this.drawRow("td", row)));
    const box = make("div", "labkit-table", "", { tabindex: "0", role: "region", "aria-label": "Scores" });
    box.append(table);
    return [box];
  }

  drawRow(tag, cells, attributes = {}) {
    const row = make("tr");
    row.append(...cells.map((text) => make(tag, "", text, attributes)));
    return row;
  }

  sumUp(name, locked) {
    return [name, String(locked.length), percent(mean(locked.map(([question, one]) => Number(question.isRight(one))))), ""];
  }

  // Of probabilities that a sentence holds, and whether it did; a choice says 0 or 1.
  score(name, pairs) {
    return [name, String(pairs.length), percent(mean(pairs.map(([p, held]) => Number((p > 0.5) === (held === 1))))),
      mean(pairs.map(([p, held]) => (p - held) ** 2)).toFixed(2)];
  }

  // -- files: the reader's own, and others'
  drawTools() {
    const tools = make("div", "labkit-tools");
    const button = (text, act) => {
      const made = make("button", "quiet", text, { type: "button" });
      made.addEventListener("click", act);
      tools.append(made);
    };
    const opener = (text, many, act) => {
      const label = make("label", "file", text);
      const field = make("input", "", "", { type: "file", accept: ".json,application/json" });
      field.multiple = many;
      field.addEventListener("change", async () => {
        const files = await Promise.all([...field.files].map(readFile));
        field.value = "";
        act(files);
      });
      label.append(field);
      tools.append(label);
    };
    button("Export JSON", () => save("predictions.json", "application/json", this.writeJson()));
    button("Export CSV", () => save("predictions.csv", "text/csv", this.writeCsv()));
    opener("Import", false, (files) => this.takeIn(files));
    opener("Compare with others", true, (files) => this.compare(files));
    button("Delete all", () => this.deleteAll());
    return tools;
  }

  writeJson() {
    const locked = Object.entries(kept).map(([claim, one]) => ({ claim, ...one }));
    return JSON.stringify({ book: document.title, predictions: locked }, null, 1);
  }

  writeCsv() {
    const head = ["chapter", "question", "claim", "state", "choice", "measured", "right", "at"];
    const rows = this.questions.filter((question) => question.decision).map((question) => {
      const { ask, decision, name } = question;
      const locked = decision.state === "locked";
      return [ask.chapter, ask.asked, name, decision.state, locked ? ask.choices[decision.choice] : "",
        ask.choices[ask.right], locked ? question.isRight(decision) : "", decision.at ?? ""];
    });
    const cell = (value) => /[",\n]/.test(`${value}`) ? `"${`${value}`.replaceAll('"', '""')}"` : `${value}`;
    return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  // What is locked here stays; a file adds to it.
  takeIn([file]) {
    if (!file.predictions) return this.say(file.fault);
    load();
    const fresh = Object.fromEntries(Object.entries(file.predictions).filter(([claim]) => kept[claim]?.state !== "locked"));
    const [count, all] = [fresh, file.predictions].map((of) => Object.keys(of).length);
    keep(fresh);
    this.draw();
    this.say(`${count} of the ${all} predictions in ${file.name} were added; what is locked here stays as it is.`);
  }

  compare(files) {
    const whole = files.filter((file) => file.predictions);
    this.others = whole.map((file) => [file.name.replace(/\.json$/, ""), file.predictions]);
    this.draw();
    this.say(files.filter((file) => !file.predictions).map((file) => file.fault).join(" "));
  }

  deleteAll() {
    const count = Object.keys(kept).length;
    if (!count || !confirm(`Delete your ${count} predictions from this browser? Nothing brings them back.`)) return;
    kept = {};
    write(STORE, null);
    this.draw();
    this.say("Deleted.");
  }

  say(text) { this.note.textContent = text; }
}

async function readFile(file) {
  const fault = `${file.name} holds no predictions; choose a file that "Export JSON" wrote.`;
  try {
    const rows = JSON.parse(await file.text()).predictions;
    const found = checked(Object.fromEntries(rows.map(({ claim, ...one }) => [claim, one])));
    return Object.keys(found).length ? { name: file.name, predictions: found } : { name: file.name, fault };
  } catch {
    return { name: file.name, fault };
  }
}

function save(name, type, text) {
  const link = make("a", "", "", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.addEventListener("DOMContentLoaded", () => {
  const page = document.getElementById("labkit-overview");
  const items = [...document.querySelectorAll(".labkit-asked[data-ask]")];
  if (page) {
    const overview = new Overview(page);
    refresh = () => overview.draw();
  } else if (items.length) askReader(items);
  if (always) document.querySelectorAll(".labkit-short").forEach((fold) => { fold.open = true; });
  refresh();
  addEventListener("storage", (event) => {
    if (event.key === ALWAYS) always = read(ALWAYS) === "yes";
    load();
    refresh();
  });
});
