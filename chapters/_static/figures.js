// Figures as instruments: point at a mark and read it, keep a name and grey the rest, move a slider,
// copy a figure's address. What a drawing shows stands in its own attributes (labkit.plots.marks):
//
//   .labkit-drawing[data-marks]   names, arms and numbers of its series
//   svg[data-at]                  where they are in this drawing, of which a phone has another
//   [data-series], [data-name]    what is drawn for a series, and its name
//
// One arm has one colour through the book, and a reader who keeps it keeps it on the whole page.
(() => {
const REACH = 40, BESIDE = 14, MOST = 4;  // pixels to a mark, and from it; marks read at a time
const AFTER = 80;  // milliseconds
const told = new WeakMap(), placed = new WeakMap(), shifts = new WeakMap(), hooked = new WeakMap();
const phone = matchMedia("(max-width: 600px)");  // as in book.css
let kept = null;

// -- what a drawing shows ------------------------------------------------------------------------
function read(drawing) {
  if (!told.has(drawing)) {
    const marks = JSON.parse(drawing.dataset.marks);
    marks.series = marks.series.map(([name, arm, quantity, panel, points]) => ({name, arm, quantity, panel, points}));
    told.set(drawing, marks);
  }
  return told.get(drawing);
}

function places(svg) {
  if (!placed.has(svg)) {
    const pair = text => text && text.split(" ").map(Number);
    placed.set(svg, svg.dataset.at.split(";").map(line => line.split(",").map(pair)));
  }
  return placed.get(svg);
}

// All that the drawing for this screen has for a series: [element, series, is it the name].
function hooks(drawing) {
  const svg = phone.matches ? drawing.querySelector(".labkit-narrow") ?? drawing.firstElementChild : drawing.firstElementChild;
  if (!hooked.has(svg)) {
    const parts = [...svg.querySelectorAll("[data-series], [data-name]")];
    hooked.set(svg, parts.map(part => [part, part.dataset.series ?? part.dataset.name, "name" in part.dataset]));
  }
  return hooked.get(svg);
}

const visible = drawing => [...drawing.children].find(c => c.matches("svg") && c.getClientRects().length);

function write(value) {
  if (typeof value === "string") return value;
  if (value === null) return "diverged";
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e6)) {
    const [digits, power] = value.toExponential(3).split("e");
    const raised = String(Number(power)).replace(/[-\d]/g, c => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return `${Number(digits)}·10${raised}`.replace("-", "−");
  }
  return String(size >= 1e4 ? Math.round(value) : Number(value.toPrecision(4))).replace("-", "−");
}

function phrase(marks, series, [setting, value, low, high, runs, lost]) {
  const parts = [series.panel, marks.setting && `${marks.setting} ${write(setting)}`].filter(Boolean);
  let said = `${series.quantity} ${write(value)}`;
  if (runs > 1) said += value === null ? "" : ` (${write(low)} to ${write(high)}; ${marks.middle} of ${runs} ${marks.runs})`;
  if (lost) said += `, ${lost} of ${runs + lost} diverged`;
  return [...parts, said].join(" · ");
}

// -- point and read ------------------------------------------------------------------------------
function parts(drawing) {
  let ring = drawing.querySelector(".labkit-ring");
  if (!ring) {
    ring = drawing.appendChild(document.createElement("div"));
    ring.className = "labkit-ring";
    const box = drawing.appendChild(document.createElement("div"));
    box.className = "labkit-readout";
    box.setAttribute("role", "status");
  }
  return {ring, box: drawing.querySelector(".labkit-readout")};
}

// From the drawing's units to pixels of the box that holds it.
function scale(drawing, svg) {
  const inner = svg.getBoundingClientRect(), outer = drawing.getBoundingClientRect();
  const size = inner.width / svg.viewBox.baseVal.width;
  return {size, left: inner.left - outer.left, top: inner.top - outer.top, width: outer.width, inner};
}

function nearest(drawing, svg, event) {
  const {size, inner} = scale(drawing, svg);
  const x = (event.clientX - inner.left) / size, y = (event.clientY - inner.top) / size;
  let best = (REACH / size) ** 2, found = null;
  places(svg).forEach((line, s) => line.forEach((at, i) => {
    if (!at) return;
    const far = (at[0] - x) ** 2 + (at[1] - y) ** 2;
    if (far < best) { best = far; found = [s, i]; }
  }));
  return found;
}

function show(drawing, spot) {
  const svg = visible(drawing), marks = read(drawing), [x, y] = places(svg)[spot[0]][spot[1]];
  const {ring, box} = parts(drawing), {size, left, top, width} = scale(drawing, svg);
  const here = [spot];  // first the mark itself, then what lies under it
  places(svg).forEach((line, s) => line.forEach((at, i) => {
    if (at && Math.abs(at[0] - x) + Math.abs(at[1] - y) < 2 && s !== spot[0]) here.push([s, i]);
  }));
  box.replaceChildren(...here.slice(0, MOST).map(([s, i]) => {
    const row = document.createElement("p"), name = document.createElement("b");
    name.textContent = marks.series[s].name;
    row.append(name, ` ${phrase(marks, marks.series[s], marks.series[s].points[i])}`);
    return row;
  }));
  drawing.dataset.spot = spot.join(" ");
  const px = left + size * x, py = top + size * y;
  ring.style.translate = `${px}px ${py}px`;
  const wide = box.offsetWidth, high = box.offsetHeight;
  const at = Math.max(0, Math.min(px - wide / 2, width - wide));
  const up = py - high - BESIDE;
  box.style.translate = `${at}px ${up > -high / 2 ? up : py + BESIDE}px`;
}

function hide(drawing) {
  if (!("spot" in drawing.dataset)) return;
  delete drawing.dataset.spot;
  drawing.querySelector(".labkit-readout").replaceChildren();
}

function point(drawing, event) {
  const svg = visible(drawing), found = svg && nearest(drawing, svg, event);
  if (!found) hide(drawing);
  else if (drawing.dataset.spot !== found.join(" ")) show(drawing, found);
}

// Along a line with left and right, to the next line with up and down.
function step(drawing, key) {
  const lines = places(visible(drawing));
  const seen = s => lines[s].map((at, i) => at ? i : -1).filter(i => i >= 0);
  const full = lines.map((_, s) => s).filter(s => seen(s).length);
  if (!full.length) return;
  let [s, i] = (drawing.dataset.spot ?? `${full[0]} ${seen(full[0])[0] - 1}`).split(" ").map(Number);
  if (key === "ArrowUp" || key === "ArrowDown") {
    const turn = full.indexOf(s) + (key === "ArrowDown" ? 1 : -1);
    s = full[(turn + full.length) % full.length];
    i = seen(s).reduce((a, b) => Math.abs(b - i) < Math.abs(a - i) ? b : a);
  } else {
    const all = seen(s), now = all.indexOf(i);
    const to = {ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1}[key];
    i = all[Math.max(0, Math.min(to, all.length - 1))];
  }
  show(drawing, [s, i]);
}

// -- keep a name ---------------------------------------------------------------------------------
// In its own figure the name itself; elsewhere the same name, or else all that shows its arm.
function choose(drawing) {
  const {series} = read(drawing);
  const named = series.map(one => one.name === kept.name);
  if (drawing === kept.drawing || named.includes(true)) return named;
  return series.map(one => one.arm !== "" && one.arm === kept.arm);
}

// What is on the screen changes at once, the rest of the page when that has been seen.
function paint() {
  const drawings = [...document.querySelectorAll(".labkit-drawing[data-marks]")];
  const near = drawing => {
    const {top, bottom} = drawing.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  const [now, later] = [drawings.filter(near), drawings.filter(drawing => !near(drawing))];
  now.forEach(grey);
  clearTimeout(paint.timer);
  paint.timer = setTimeout(() => later.forEach(grey), AFTER);
  return kept ? drawings.filter(drawing => choose(drawing).includes(true)).length : 0;
}

function grey(drawing) {
  const mine = kept ? choose(drawing) : [], some = mine.includes(true);
  for (const [part, s, named] of hooks(drawing)) {
    const state = !some ? "" : !mine[s] ? "labkit-quiet" : named ? "labkit-kept" : "";
    if (part.className.baseVal !== state) part.className.baseVal = state;
  }
}

function keep(drawing, s) {
  const {name, arm} = read(drawing).series[s];
  const again = kept && choose(drawing)[s];
  kept = again ? null : {name, arm, drawing};
  const figures = paint(), {box} = parts(drawing);
  const row = document.createElement("p");
  row.textContent = kept
    ? `${name} kept in ${figures} ${figures === 1 ? "figure" : "figures"} of this page. Escape, or its name again, shows all.`
    : "All are shown.";
  hide(drawing);
  box.replaceChildren(row);
  box.style.translate = "0 0";
  box.classList.add("labkit-said");
  clearTimeout(keep.timer);
  keep.timer = setTimeout(() => box.classList.remove("labkit-said"), 4000);
}

// -- sliders -------------------------------------------------------------------------------------
// What closed formulas give: for each series its values at the settings; `ways` gives points in space.
const FORMULAS = {
  row: (gain, given, settings) => settings.map((line, s) =>
    line.map(layer => gain ** (s === 0 ? layer : given.depth - layer))),
  bounds: (gain, given, settings) => settings.map((line, s) =>
    line.map(keys => 1 / (1 + (keys - 1) * Math.exp(-2 * gain ** 2 * given.bounds[s])))),
  ways: (share, {h, b, own}, settings) => {
    const unit = v => v.map(c => c / Math.hypot(...v));
    const dot = (u, v) => u.reduce((sum, c, k) => sum + c * v[k], 0);
    const angle = Math.acos(dot(h, b)), count = settings[0].length;
    const toward = (a, each = [1, 1, 1]) => h.map((c, k) => c + a * each[k] * (b[k] - c));
    const turn = a => h.map((c, k) =>
      (Math.sin((1 - a) * angle) * c + Math.sin(a * angle) * b[k]) / Math.sin(angle));
    const ways = [toward, a => unit(toward(a)), turn, a => unit(toward(a, own))];
    const points = ways.map(way => Array.from({length: count}, (_, i) => way(share * i / (count - 1))));
    return points.flatMap(path => [0, 1, 2].map(k => path.map(p => p[k])));
  },
};

// Put the numbers into a drawing: its lines, their markers, the names at their ends.
function redraw(svg, marks) {
  const {x, y, at, log, view} = JSON.parse(svg.dataset.axes);
  const along = ([low, high], [from, to], isLog) => value => {
    const f = isLog ? Math.log10 : v => v;
    return from + (to - from) * (f(value) - f(low)) / (f(high) - f(low));
  };
  const across = along(x, at.slice(0, 2), log[0]), up = along(y, at.slice(2), log[1]);
  const each = view.length ? 3 : 1, spots = [], ends = [];
  for (let s = 0; s < marks.series.length; s += each) {
    const rows = marks.series.slice(s, s + each).map(one => one.points.map(p => p[1]));
    const seen = k => rows[0].map((_, i) => rows.reduce((sum, row, axis) => sum + row[i] * view[axis][k], 0));
    const xs = each === 3 ? seen(0) : marks.series[s].points.map(p => p[0]);
    const ys = each === 3 ? seen(1) : rows[0], depth = each === 3 ? seen(2) : null;
    const aside = shift(svg, s, across(xs[0]));
    const line = xs.map((value, i) => [across(value) + aside, up(ys[i])]);
    const inside = ([a, b]) => a >= at[0] - 4 && a <= at[1] + 4 && b <= at[2] + 4 && b >= at[3] - 4;
    for (let k = 0; k < each; k++) spots.push(line.map(p => inside(p) ? p : null));
    draw(svg, s, line, depth);
    ends.push([s, line.at(-1)[1]]);
  }
  placed.set(svg, spots);
  label(svg, ends, at[2]);
}

// Neighbouring series stand a little aside, so that none hides another.
function shift(svg, s, x) {
  if (!shifts.has(svg)) shifts.set(svg, {});
  return shifts.get(svg)[s] ??= svg.dataset.axes.includes('"view":[]') && places(svg)[s][0] ? places(svg)[s][0][0] - x : 0;
}

function draw(svg, s, line, depth) {
  const groups = [...svg.querySelectorAll(`[data-series="${s}"]`)];
  const count = path => path.getAttribute("d").match(/[ML]/g).length;
  const paths = groups.flatMap(g => [...g.children].filter(c => c.matches("path")));
  const main = paths.reduce((a, b) => count(b) > count(a) ? b : a);
  main.setAttribute("d", line.map(([a, b], i) => `${i ? "L" : "M"} ${a.toFixed(2)} ${b.toFixed(2)}`).join(" "));
  const marks = groups.flatMap(g => [...g.querySelectorAll("use")]);
  const every = Math.max(1, Math.round((line.length - 1) / Math.max(1, marks.length - 1)));
  marks.forEach((mark, j) => {
    const i = Math.min(j * every, line.length - 1);
    mark.setAttribute("x", line[i][0].toFixed(2));
    mark.setAttribute("y", line[i][1].toFixed(2));
    if (depth) mark.style.opacity = depth[i] < -0.02 ? 0.3 : 1;
  });
}

// Names at the ends of lines stay a line apart.
function label(svg, ends, bottom) {
  const names = ends.map(([s, y]) => [svg.querySelectorAll(`[data-name="${s}"]`), y])
    .filter(([parts]) => parts.length === 1)  // a legend has a line, too
    .sort((a, b) => a[1] - b[1]);
  const least = 11.5, places = names.map(([, y]) => y);
  for (let i = 1; i < places.length; i++) places[i] = Math.max(places[i], places[i - 1] + least);
  for (let i = places.length - 1, most = bottom; i >= 0; i--, most -= least) places[i] = Math.min(places[i], most);
  names.forEach(([[name]], i) => name.querySelector("text").setAttribute("y", (places[i] + 3.4).toFixed(2)));
}

function move(slider, range) {
  let name = range.value;
  if (slider.dataset.formula) {
    const given = JSON.parse(slider.dataset.formula);
    const drawing = slider.querySelector(".labkit-drawing"), marks = read(drawing);
    const settings = marks.series.map(one => one.points.map(p => p[0]));
    const values = FORMULAS[given.name](Number(name), given, settings);
    marks.series.forEach((one, s) => one.points.forEach((p, i) => { p[1] = values[s][i]; }));
    drawing.querySelectorAll("svg").forEach(svg => redraw(svg, marks));
    hide(drawing);
  } else {
    const frames = slider.querySelectorAll(".labkit-frame");
    frames.forEach((frame, i) => { frame.hidden = i !== Number(name); });
    name = frames[name].dataset.label;
  }
  slider.querySelector("output").textContent = name;
  range.setAttribute("aria-valuetext", name);
}

// -- a page's figures ----------------------------------------------------------------------------
function start(drawing) {
  const number = drawing.closest("figure")?.querySelector(".labkit-number")?.textContent ?? "This figure";
  const box = drawing;
  box.tabIndex = 0;
  box.setAttribute("role", "application");
  box.setAttribute("aria-label", `${number}: arrow keys read its values, Enter keeps a name and greys the rest, Escape shows all`);
  let due = 0;
  box.addEventListener("pointermove", event => {
    if (event.pointerType === "touch") return;
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => point(drawing, event));
  });
  box.addEventListener("pointerleave", event => {
    cancelAnimationFrame(due);
    if (event.pointerType !== "touch") hide(drawing);
  });
  box.addEventListener("click", event => {
    const name = event.target.closest("[data-name]");
    if (name) keep(drawing, Number(name.dataset.name));
    else point(drawing, event);
  });
  box.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") keep(drawing, Number((drawing.dataset.spot ?? "0").split(" ")[0]));
    else if (["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) step(drawing, event.key);
    else return;
    event.preventDefault();
  });
  box.addEventListener("blur", () => hide(drawing));
}

function copy(event) {
  const link = event.currentTarget;
  navigator.clipboard?.writeText(link.href).then(() => {
    link.classList.add("labkit-copied");
    setTimeout(() => link.classList.remove("labkit-copied"), 1500);
  }, () => {});
}

function begin() {
  document.querySelectorAll("figure:not([data-explorer]) .labkit-drawing[data-marks]").forEach(start);
  for (const slider of document.querySelectorAll(".labkit-slider")) {
    const range = slider.querySelector("input[type=range]");
    range.addEventListener("input", () => move(slider, range));
    range.closest("p").hidden = false;
  }
  document.querySelectorAll(".labkit-permalink").forEach(link => link.addEventListener("click", copy));
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    document.querySelectorAll(".labkit-drawing[data-spot]").forEach(hide);
    if (kept) { kept = null; paint(); }
  });
  phone.addEventListener("change", paint);
  // A finger's reading stays until it taps elsewhere.
  document.addEventListener("pointerdown", event => {
    document.querySelectorAll(".labkit-drawing[data-spot]").forEach(drawing => {
      if (!drawing.contains(event.target)) hide(drawing);
    });
  });
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
})();
