// Predictions: lock a range for each question of a chapter, or decline; then see what was measured.
//
// A question is an item .labkit-asked of a list; its attribute data-ask has the axis and the answer
// (press/site/predictions.py). What a reader locked stays in this browser, under one key. Figures
// and cards of a section wait while one of the questions that they answer is open. The page "Your
// predictions" shows all of them again, scored.

const STORE = "labkit-predictions"; // {claim: {state, mark, low, high, at}}
const ALWAYS = "labkit-show-everything";
const BET = 0.8; // four to one
const WAITING = "labkit-waits";

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
    || (one.state === "locked" && Number.isFinite(one.low) && Number.isFinite(one.high) && one.low <= one.high));
  return Object.fromEntries(Object.entries(found ?? {}).filter(fine));
}

let always = read(ALWAYS) === "yes";
load();
document.documentElement.dataset.predict = always ? "show" : "ask"; // before the page is painted

// -- the axis ------------------------------------------------------------------------------------
class Axis {
  constructor(ask) {
    Object.assign(this, ask);
    this.log = this.scale === "log";
    const length = this.log ? Math.log10(this.high / this.low) : this.high - this.low;
    this.count = Math.round(length / this.step);
    this.writer = new Intl.NumberFormat("en", this.log ? { maximumSignificantDigits: 2 }
      : { minimumFractionDigits: this.places, maximumFractionDigits: this.places });
  }

  // The number at a step of the grid, as many digits as the grid tells apart.
  at(index) {
    if (index >= this.count) return this.high;
    if (index <= 0) return this.low;
    if (this.log) return Number((this.low * 10 ** (index * this.step)).toPrecision(2));
    return Number((this.low + index * this.step).toFixed(this.places));
  }

  get places() { return this.log ? 0 : Math.max(0, -Math.floor(Math.log10(this.step) + 1e-9)); }

  place(value) {
    if (this.log) return Math.log(Math.max(value, 1e-300) / this.low) / Math.log(this.high / this.low);
    return (value - this.low) / (this.high - this.low);
  }

  number(value) { return this.writer.format(value).replace("-", "−"); }

  name(text) { return this.unit ? `${text} ${this.unit}` : text; }

  range(low, high) {
    const ends = [this.number(low), this.number(high)];
    return this.name(low === high ? ends[0] : `${ends[0]} to ${ends[1]}`);
  }

  holds(one) {
    const at = this.place(this.measured);
    return at >= this.place(one.low) - 1e-9 && at <= this.place(one.high) + 1e-9;
  }

  // The interval score of Gneiting and Raftery (2007): the width, and ten times what it misses by.
  score(one) {
    const [low, high, at] = [one.low, one.high, this.measured].map((value) => this.place(value));
    return high - low + 2 / (1 - BET) * Math.max(0, low - at, at - high);
  }
}

// -- drawing -------------------------------------------------------------------------------------
function make(tag, className = "", text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const afterPainting = (act) => requestAnimationFrame(() => setTimeout(act));
const within = (place) => Math.min(1, Math.max(0, place));

// From one number to another; null is the end of the axis.
function stretch(mark, axis, low, high) {
  const [from, to] = [low, high].map((end, i) => within(end === null ? i : axis.place(end)));
  mark.style.left = `${100 * from}%`;
  mark.style.width = `${100 * (to - from)}%`;
  return mark;
}

const band = (axis, className, low, high) => stretch(make("i", className), axis, low, high);

function point(axis, className, value) {
  const mark = make("i", className);
  mark.style.left = `${100 * within(axis.place(value))}%`;
  return mark;
}

function lane(who, className, ...marks) {
  const row = make("div", `lane ${className}`);
  const line = make("div", "line");
  line.append(...marks);
  row.append(make("span", "who", who), line);
  return row;
}

function ticks(axis) {
  const labels = Object.entries(axis.ticks).sort(([, a], [, b]) => a - b).map(([text, place], i, all) => {
    const last = i === all.length - 1 && axis.unit;
    const label = make("span", last ? "tick with-unit" : "tick", last ? axis.name(text) : text);
    label.style.left = `${100 * place}%`;
    return label;
  });
  return lane("", "ticks", ...labels);
}

// Three lanes: the reader's range, ours, what was measured; others' between, if there are any.
function drawAnswer(axis, others = []) {
  const picture = make("div", "labkit-axis", "", { role: "img" });
  const lanes = others.map(([name, other]) => lane(name, "other", band(axis, "range", other.low, other.high)));
  const measured = axis.interval.length ? [band(axis, "interval", ...axis.interval)] : [];
  measured.push(...axis.values.map((value) => point(axis, "seed", value)), point(axis, "mean", axis.measured));
  picture.append(lane("you", "you", make("i", "range")), ...lanes, lane("we", "we", band(axis, "range", ...axis.region)),
    lane("measured", "measured", ...measured), ticks(axis));
  return picture;
}

// Put the reader's range into a picture that stands already.
function placeRange(picture, axis, one, others = []) {
  const locked = one?.state === "locked";
  const own = picture.querySelector(".you");
  own.hidden = !locked;
  if (locked) stretch(own.querySelector(".range"), axis, one.low, one.high);
  const said = [["You", one], ...others].filter(([, of]) => of?.state === "locked")
    .map(([name, { low, high }]) => `${name}: ${axis.range(low, high)}`);
  picture.setAttribute("aria-label", [...said, `we: ${axis.ours}`, `measured: ${axis.found}`].join("; "));
}

function describe(axis, one) {
  if (one.state !== "locked") return `Declined. Measured: ${axis.found}.`;
  const where = axis.holds(one) ? "inside" : "outside";
  return `You: ${axis.range(one.low, one.high)}. Measured: ${axis.found}, ${where} your range.`;
}

// -- one question ----------------------------------------------------------------------------------
class Question {
  constructor(item) {
    this.item = item;
    this.axis = new Axis(JSON.parse(item.dataset.ask));
    this.name = this.axis.claims[0];
    this.number = item.id.split("-").pop();
    this.text = item.querySelector("p");
    this.text.id ||= `${item.id}-asks`;
    this.answer = item.querySelector(".labkit-answer");
  }

  // What was locked on another axis, or as another question, is none of this one.
  get decision() {
    const one = kept[this.name];
    return one?.mark === this.axis.mark ? one : null;
  }

  get open() { return !always && !this.decision; }

  decide(changes) {
    keep({ [this.name]: { mark: this.axis.mark, at: new Date().toISOString(), ...changes } });
    refresh();
    afterPainting(() => this.result.focus());
  }

  // Both states are there from the start and one is shown: what is put in later restyles the page.
  build() {
    this.controls = make("div", "labkit-controls");
    this.controls.append(...this.drawControls());
    this.seen = make("div", "labkit-seen");
    this.picture = drawAnswer(this.axis);
    placeRange(this.picture, this.axis, null);
    this.result = make("p", "result", " ", { tabindex: "-1" });
    this.seen.append(this.picture, this.result);
    this.answer.before(this.controls, this.seen);
  }

  draw() {
    if (!this.seen) this.build();
    const one = this.decision;
    const state = this.open ? "open" : one?.state ?? "shown";
    if (this.item.dataset.state === state) return;
    this.item.dataset.state = state;
    this.answer.open = state !== "open";
    if (state === "open") return;
    placeRange(this.picture, this.axis, one);
    this.result.firstChild.data = one ? describe(this.axis, one) : " ";
  }

  drawControls() {
    const { axis } = this;
    const range = make("i", "range");
    const ends = ["lowest", "highest"].map((which) => make("div", "end", "", {
      role: "slider", tabindex: "0", "aria-label": `${which} number that you expect`,
      "aria-describedby": this.text.id, "aria-valuemin": axis.low, "aria-valuemax": axis.high,
    }));
    const row = lane("you", "you", range, ...ends);
    const line = row.querySelector(".line");
    const picture = make("div", "labkit-axis", "", { role: "group", "aria-labelledby": this.text.id });
    picture.append(row, ticks(axis));
    const said = make("output");
    const words = document.createTextNode(" "); // changed in place: a new node would restyle the page
    said.append(words);
    const lock = make("button", "", "Lock", { type: "button" });
    const decline = make("button", "quiet", "Show without predicting", { type: "button" });
    const buttons = make("div", "labkit-lock");
    buttons.append(said, lock, decline);
    const least = axis.scale === "whole" ? 0 : 1;
    let at = [0, axis.count];

    const show = () => {
      const values = at.map((index) => axis.at(index));
      stretch(range, axis, ...values);
      ends.forEach((end, i) => {
        end.style.left = `${100 * axis.place(values[i])}%`;
        end.setAttribute("aria-valuenow", values[i]);
        end.setAttribute("aria-valuetext", axis.name(axis.number(values[i])));
      });
      const everything = at[0] === 0 && at[1] === axis.count;
      words.data = everything ? "Mark your range." : `You: ${axis.range(...values)}`;
      lock.disabled = everything;
    };
    const move = (i, to) => {
      const [low, high] = i ? [at[0] + least, axis.count] : [0, at[1] - least];
      at[i] = Math.min(high, Math.max(low, to));
      show();
    };
    ends.forEach((end, i) => end.addEventListener("keydown", (event) => {
      const far = Math.max(1, Math.round(axis.count / 10));
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far,
        Home: -axis.count, End: axis.count }[event.key];
      if (!step) return;
      event.preventDefault();
      move(i, at[i] + step);
    }));

    // A drag on an end moves it; a drag elsewhere paints the range anew, a click a narrow one.
    const where = (event) => {
      const box = line.getBoundingClientRect();
      return Math.round(within((event.clientX - box.left) / box.width) * axis.count);
    };
    line.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const grabbed = ends.indexOf(event.target);
      const start = where(event);
      event.preventDefault();
      line.setPointerCapture(event.pointerId);
      if (grabbed < 0) {
        const half = Math.max(least, Math.round(axis.count / 20));
        at = [Math.max(0, start - half), Math.min(axis.count, start + half)];
        show();
      }
      ends[Math.max(0, grabbed)].focus({ preventScroll: true });
      const drag = (moved) => {
        const now = where(moved);
        if (grabbed >= 0) move(grabbed, now);
        else if (Math.abs(now - start) > 1) { at = [Math.min(start, now), Math.max(start, now)]; show(); }
      };
      const stop = () => {
        line.removeEventListener("pointermove", drag);
        for (const end of ["pointerup", "pointercancel"]) line.removeEventListener(end, stop);
      };
      line.addEventListener("pointermove", drag);
      for (const end of ["pointerup", "pointercancel"]) line.addEventListener(end, stop);
    });
    lock.addEventListener("click", () => this.decide({ state: "locked", low: axis.at(at[0]), high: axis.at(at[1]) }));
    decline.addEventListener("click", () => this.decide({ state: "declined" }));
    show();
    return [picture, buttons];
  }
}

// -- what waits for an answer ----------------------------------------------------------------------
const TELLING = "figure.labkit-figure, .cell_output > .output, div.cell.tag_hide-input";
const revealed = new Set(); // cards to which an address led

const covered = new Map(); // section: what stands covered in it

function coverAnswers(questions) {
  const owners = new Map(); // card: the question that it answers
  const sections = new Map(); // section: the open questions that it answers
  for (const question of questions) {
    for (const name of question.axis.claims) {
      const card = document.getElementById(`claim-${name}`);
      const below = card && question.item.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (!below) continue;
      const section = card.closest("section");
      owners.set(card.closest(".output"), question);
      if (!sections.has(section)) sections.set(section, new Set());
      if (question.open) sections.get(section).add(question);
    }
  }
  for (const [section, open] of sections) {
    const before = covered.get(section) ?? { waiting: [], covers: [], state: "" };
    const state = [revealed.size, ...[...open].map((question) => question.name)].join(" ");
    if (state === before.state) continue;
    const waiting = !open.size ? [] : [...section.querySelectorAll(TELLING)].filter((element) =>
      element.closest("section") === section && !element.closest(".tag_exercise, .labkit-solution")
      && !revealed.has(element) && (owners.get(element)?.open ?? true));
    before.waiting.filter((element) => !waiting.includes(element)).forEach((element) => element.classList.remove(WAITING));
    waiting.forEach((element) => element.classList.add(WAITING));
    before.covers.forEach((cover) => cover.remove());
    const covers = groupNeighbours(section, waiting).map((group) => {
      const cover = drawCover(group, [...open]);
      group[0].before(cover);
      return cover;
    });
    covered.set(section, { waiting, covers, state });
  }
}

// Neighbours share a cover; prose and open code come between.
function groupNeighbours(section, waiting) {
  const groups = [];
  let last = null;
  for (const element of waiting) {
    const top = [...section.children].find((child) => child.contains(element));
    const follows = last && (top === last || last.nextElementSibling === top);
    const code = top.querySelector(":scope > .cell_input"); // stands open above what it made
    if (follows && !(code && top !== last)) groups.at(-1).push(element);
    else groups.push([element]);
    last = top;
  }
  return groups.filter((group) => group.some((element) => !element.matches(".tag_hide-input")));
}

function drawCover(group, open) {
  const cover = make("div", "labkit-cover", "", { role: "note" });
  const asked = open.map((question, i) => [make("a", "", question.number, { href: `#${question.item.id}` }),
    i < open.length - 2 ? ", " : i < open.length - 1 ? " and " : ""]).flat();
  const figures = group.filter((element) => element.matches("figure")).length;
  const rest = group.filter((element) => element.matches(".output")).length;
  const count = (n, one, many) => n ? [n === 1 ? one : `${n} ${many}`] : [];
  const what = [...count(figures, "a figure", "figures"), ...count(rest, "a result", "results")].join(" and ");
  const text = make("p", "", `${what[0].toUpperCase()}${what.slice(1)} ${figures + rest === 1 ? "is" : "are"} hidden`
    + ` until you answer question${open.length > 1 ? "s" : ""} `);
  text.append(...asked, ".");
  const button = make("button", "quiet", "Show without predicting", { type: "button" });
  button.addEventListener("click", () => {
    keep(Object.fromEntries(open.map((question) => [question.name,
      { mark: question.axis.mark, at: new Date().toISOString(), state: "declined" }])));
    refresh({ now: true });
    group[0].tabIndex = -1;
    group[0].focus();
  });
  cover.append(text, button);
  return cover;
}

// Whoever follows a link to a card sees the card.
function revealTarget() {
  const output = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".output");
  if (output) revealed.add(output);
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

const HOW = "Drag to mark the range in which you expect the number: wide enough that you would bet four to one on it. "
  + "The arrow keys move each end, too. Lock the range to see our answer and the measurement. ";
const MEMORY = "This browser stores nothing: your predictions last until you leave the page.";

function askReader(list) {
  const questions = [...list.querySelectorAll(".labkit-asked[data-ask]")].map((item) => new Question(item));
  const head = make("div", "labkit-how");
  const how = make("p", "", HOW);
  how.append(make("a", "", "Your predictions", { href: "predictions.html" }), " through the book.");
  const note = make("p", "labkit-refused", "", { role: "status" });
  head.append(how, note, drawSwitch());
  list.before(head);
  refresh = ({ now = false } = {}) => {
    questions.forEach((question) => question.draw());
    note.textContent = refused ? MEMORY : "";
    if (now) coverAnswers(questions);
    else afterPainting(() => coverAnswers(questions)); // first the answer
  };
  revealTarget();
  addEventListener("hashchange", () => { revealTarget(); refresh({ now: true }); });
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
      const others = this.others.map(([name, of]) => [name, of[question.name]])
        .filter(([, other]) => other?.mark === question.axis.mark && other.state === "locked");
      question.item.querySelector(".labkit-seen")?.remove();
      question.item.dataset.state = one?.state ?? "open";
      if (!one && !always) continue;
      const drawn = make("div", "labkit-seen");
      const picture = drawAnswer(question.axis, others);
      placeRange(picture, question.axis, one, others);
      drawn.append(picture, make("p", "result", one ? describe(question.axis, one) : ""));
      question.item.append(drawn);
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

  // The questions that somebody locked, each with what he locked.
  list(predictions) {
    return this.questions.map((question) => [question, predictions[question.name]])
      .filter(([question, one]) => one?.mark === question.axis.mark && one.state === "locked");
  }

  drawScores() {
    const own = this.list(kept);
    const rows = own.length ? [this.sumUp("you", own)] : [];
    for (const [name, of] of this.others) {
      const theirs = this.list(of);
      rows.push(theirs.length ? this.sumUp(name, theirs) : [name, "0", "", "", ""]);
    }
    if (!rows.length) return [make("p", "", "You have locked no prediction yet. The questions are in the section Predict of each chapter.")];
    const asked = own.length ? own.map(([question]) => question) : this.questions;
    for (const [who, by] of [["the authors", "authors"], ["the papers", "paper"]]) {
      const told = asked.filter(({ axis }) => axis.forecasts?.[by] !== undefined);
      if (!told.length) continue;
      const pairs = told.map(({ axis }) => [axis.forecasts[by], Number(axis.held)]);
      rows.push([`${who}, on ${own.length ? "the same" : "all"}`, String(told.length),
        percent(mean(pairs.map(([, held]) => held))), percent(mean(pairs.map(([p]) => p))),
        `Brier ${mean(pairs.map(([p, held]) => (p - held) ** 2)).toFixed(2)}`]);
    }
    const table = make("table");
    const head = ["by", "forecasts", "held", "expected to hold", "score"];
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
    const held = mean(locked.map(([{ axis }, one]) => Number(axis.holds(one))));
    const score = mean(locked.map(([{ axis }, one]) => axis.score(one)));
    return [name, String(locked.length), percent(held), percent(BET), `interval ${score.toFixed(2)}`];
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
    const head = ["chapter", "question", "claim", "state", "low", "high", "unit", "at", "measured", "held", "score"];
    const rows = this.questions.filter((question) => question.decision).map(({ axis, decision, name }) => {
      const locked = decision.state === "locked";
      return [axis.chapter, axis.asked, name, decision.state,
        decision.low ?? "", decision.high ?? "", axis.unit, decision.at ?? "", axis.measured,
        locked ? axis.holds(decision) : "", locked ? axis.score(decision).toFixed(4) : ""];
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
  const list = document.querySelector("ol.labkit-predictions");
  if (page) {
    const overview = new Overview(page);
    refresh = () => overview.draw();
  } else if (list?.querySelector("[data-ask]")) askReader(list);
  if (always) document.querySelectorAll(".labkit-short").forEach((fold) => { fold.open = true; });
  refresh({ now: true });
  addEventListener("storage", (event) => {
    if (event.key === ALWAYS) always = read(ALWAYS) === "yes";
    load();
    refresh();
  });
});
