// The block explorer: click norms into a block, and see what every recorded recipe did.
//
// A figure with data-explorer="r=post&a=pre" becomes an explorer; the address may say so too: r names a
// recipe, a the recipe held as A, rung a rung, lr a learning rate. Data come from
// blocks/index.js and a file a rung, made by `labkit book tables`. Every mean, interval and
// difference is theirs: this script draws, and computes no statistic. It is no module, and the data
// are scripts: so it runs on a page that was opened from a folder, too.

(() => {
  const HOME = `${(document.currentScript?.src ?? "").replace(/[^/]*$/, "")}blocks/`;
  const given = new Map(); // the data, by name

  window.labkitBlocks = (name, content) => given.set(name, content);

  function load(name) {
    return new Promise((resolve, reject) => {
      if (given.has(name)) return resolve(given.get(name));
      const script = document.createElement("script");
      script.src = `${HOME}${name}.js`;
      script.onload = () => resolve(given.get(name));
      script.onerror = () => reject(new Error(`no data of ${name}`));
      document.head.append(script);
    });
  }

  // -- drawing ---------------------------------------------------------------------------------
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
  const words = (x, y, text, more = "") => `<text x="${x}" y="${y}" ${more}>${escape(text)}</text>`;
  const nats = (value, digits = 4) => value.toFixed(digits).replace("-", "−");

  function scale(low, high, from, to, log = false) {
    const f = log ? Math.log10 : (value) => value;
    const a = f(low), b = f(high);
    return (value) => from + ((f(value) - a) / (b - a || 1)) * (to - from);
  }

  // Round numbers between two others, some five of them; of a logarithm, powers of ten.
  function ticks(low, high, log = false) {
    if (log) {
      const found = [];
      for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) found.push(+`1e${e}`);
      return found;
    }
    const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-6; n++) found.push(+(n * step).toPrecision(6));
    return found;
  }

  // The block, on a ground of 168 x 410: where its slots are, and the text of those that are off.
  const SLOTS = {
    end: [34, 28, 56, "+"], "feed-forward-out": [120, 74, 56, "+"], "feed-forward-in": [120, 134, 56, "+"],
    middle: [34, 178, 56, "+"], "attention-out": [120, 224, 56, "+"], c: [120, 257, 26, "c"],
    q: [91, 302, 26, "q"], k: [120, 302, 26, "k"], v: [149, 302, 26, "v"],
    "attention-in": [120, 334, 56, "+"], embedding: [34, 376, 56, "+"],
  };
  const WIRES = `<path class="stream" d="M34 392V8"/><path class="tip" d="M34 2l6 10h-12z"/>
    <path class="wire" d="M34 358H120V204H43M34 158H120V54H43"/>
    <path class="tip" d="M43 204l8 -4v8zM43 54l8 -4v8z"/>
    <g class="sum"><circle cx="34" cy="204" r="8"/><circle cx="34" cy="54" r="8"/>
    <path d="M29 204h10M34 199v10M29 54h10M34 49v10"/></g>
    <g class="layer"><rect x="76" y="242" width="88" height="76" rx="5"/><rect x="76" y="92" width="88" height="24" rx="5"/>
    <text x="120" y="283">attention</text><text x="120" y="108">feed-forward</text></g>
    <text class="aside" x="34" y="407">token</text>`;

  function drawBlock(index, slots, live) {
    const marks = Object.entries(SLOTS).map(([name, [x, y, wide, off]]) => {
      const on = slots.has(name);
      const heard = live
        ? `role="checkbox" tabindex="0" aria-checked="${on}" aria-label="norm on ${escape(index.slots[name])}"`
        : "";
      const hint = live ? `<title>norm on ${escape(index.slots[name])}</title>` : "";
      return `<g class="slot" data-slot="${name}" data-on="${on}" ${heard}>${hint}<rect x="${x - wide / 2}" y="${y - 12}" width="${wide}"
        height="24" rx="5"/><text x="${x}" y="${y + 4}">${on && off === "+" ? "norm" : off}</text></g>`;
    });
    return `<svg viewBox="0 0 168 412" ${live ? 'role="group" aria-label="A transformer block, from below to above"' : 'role="img"'}>
      ${WIRES}${marks.join("")}</svg>`;
  }

  const BLOCKS = { // quantity: what it is called, whether its axis is logarithmic
    stream: ["size of the stream", true], entropy: ["entropy of attention", false],
    "gradient, step 1": ["gradient at step 1", true], "gradient, step 100": ["gradient at step 100", true],
    removal: ["cost of leaving a block out (nats)", false],
  };
  const MARGIN = { left: 40, right: 14, top: 8, bottom: 22 };

  class Explorer {
    constructor(figure, index) {
      this.index = index;
      this.recipes = index.recipes;
      this.figure = figure;
      this.slots = new Set();
      this.recipe = null; // what the slots are, or what was chosen by name
      this.rung = Object.keys(index.rungs)[0];
      this.held = null;
      this.rate = null;
      this.drawing = null; // the reader's curve: losses by rate, while he draws
      this.drawn = null; // and when he has drawn
      this.build();
    }

    build() {
      const options = (rows) => rows.map(([value, text]) => `<option value="${escape(value)}">${escape(text)}</option>`).join("");
      const list = (alone) => options(Object.entries(this.recipes).filter(([, r]) => r.alone === alone).map(([n, r]) => [n, r.name]));
      const box = document.createElement("div");
      box.className = "labkit-explorer";
      box.innerHTML = `<div class="panes"><div class="tools">
        <label>recipe <select name="recipe"><optgroup label="norms alone">${list(true)}</optgroup><optgroup label="norms and more">${list(false)}</optgroup></select></label>
        <label>size <select name="rung">${options(Object.entries(this.index.rungs).map(([n, what]) => [n, `${n}: ${what}`]))}</select></label>
        <button type="button" name="hold" aria-pressed="false">compare</button>
        <button type="button" name="draw" aria-pressed="false">draw a guess</button>
        <span class="hint">Click a place in the block to add or remove a norm. You get the nearest block that we trained: other norms may move too.</span></div>
        <div class="blocks"><div class="a" hidden></div><div class="b"></div></div>
        <div class="main"><div class="said" aria-live="polite"></div>
          <div class="panel u"><p>validation loss by learning rate (nats)</p><svg></svg></div>
          <div class="rate"><label>learning rate <input type="range" name="rate" min="0" step="1"></label> <output></output></div></div>
        <details class="low"><summary>training, block by block, seed by seed</summary>
        <div><div class="panel t"><p>training loss at this rate (nats)</p><svg role="img"></svg></div>
        <div class="panel d"><p><select name="depth" aria-label="what to show by block">${options(Object.entries(BLOCKS).map(([n, [text]]) => [n, text]))}</select>
          by block</p><svg role="img"></svg></div>
        <div class="panel s"><p>test loss at its own rate (nats)</p><svg role="img"></svg></div></div></details></div>`;
      this.box = box;
      this.part = (selector) => box.querySelector(selector);
      this.field = (name) => box.querySelector(`[name="${name}"]`);
      this.part(".b").innerHTML = `<p class="name"></p>${drawBlock(this.index, this.slots, true)}<p class="words"></p>`;
      this.listen();
      this.widths = new Map();
      new ResizeObserver(() => {
        if (box.clientWidth === this.width) return;
        this.width = box.clientWidth;
        if (this.data) this.draw();
      }).observe(box);
    }

    // -- what the reader does --------------------------------------------------------------------
    listen() {
      const block = this.part(".b svg"), marks = [...block.querySelectorAll(".slot")];
      block.addEventListener("click", ({ target }) => {
        const mark = target.closest(".slot");
        if (mark) this.toggle(mark.dataset.slot);
      });
      block.addEventListener("keydown", (event) => {
        const mark = event.target.closest(".slot");
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        if (event.key === " " || event.key === "Enter") this.toggle(mark.dataset.slot);
        else if (step) marks[(marks.indexOf(mark) + step + marks.length) % marks.length].focus();
        else return;
        event.preventDefault();
      });
      this.box.addEventListener("change", ({ target }) => {
        if (target.name === "recipe") this.choose(target.value);
        else if (target.name === "rung") this.climb(target.value).catch(() => { target.value = this.rung; });
        else if (target.name === "depth") this.draw();
      });
      this.field("rate").addEventListener("input", ({ target }) => {
        this.rate = this.stops[target.value];
        this.draw();
        this.keep();
      });
      this.field("hold").addEventListener("click", () => {
        this.held = this.held ? null : this.recipe;
        this.show();
      });
      this.field("draw").addEventListener("click", () => this.turn());
      this.part(".low").addEventListener("toggle", () => { if (this.data) this.draw(); });
      const u = this.part(".u svg");
      const point = (event) => {
        const box = u.getBoundingClientRect();
        this.point(event.clientX - box.left, event.clientY - box.top, event.type === "pointerdown");
      };
      u.addEventListener("pointerdown", (event) => { u.setPointerCapture(event.pointerId); point(event); });
      u.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
      u.addEventListener("keydown", (event) => this.press(event));
    }

    // A click on a slot leads to the nearest trained block that differs in this slot, so that every
    // click is answered.
    toggle(slot) {
      const to = this.findNearest(slot);
      if (!to) return;
      this.moved = { slot, before: this.slots };
      this.slots = new Set(this.recipes[to].slots);
      this.recipe = to;
      this.show();
    }

    countMoves(name) {
      const { slots } = this.recipes[name];
      return Object.keys(SLOTS).filter((slot) => this.slots.has(slot) !== slots.includes(slot)).length;
    }

    findNearest(slot) {
      const trained = (name) => this.recipes[name].alone && this.data.recipes[name].mean !== undefined;
      return Object.keys(this.data.recipes)
        .filter((name) => trained(name) && this.recipes[name].slots.includes(slot) !== this.slots.has(slot))
        .sort((a, b) => this.countMoves(a) - this.countMoves(b))[0] ?? null;
    }

    choose(name) {
      [this.recipe, this.moved] = [name, null];
      this.slots = new Set(this.recipes[name].slots);
      this.show();
    }

    async climb(rung) {
      this.wanted = rung;
      const data = await load(rung);
      if (this.wanted !== rung) return; // another one was chosen meanwhile
      [this.rung, this.data] = [rung, data];
      if (!this.box.isConnected) this.figure.prepend(this.box); // drawn at once: nothing below it moves twice
      this.figure.classList.add("labkit-live");
      this.width = this.box.clientWidth;
      const curves = Object.values(data.recipes).flatMap((r) => Object.values(r.curves));
      this.lowest = Math.min(...curves.flatMap(([, losses]) => losses)) - 0.05;
      this.show();
    }

    // Begin to draw the curve, or end it and show the result.
    turn() {
      if (this.drawing) {
        this.drawn = this.drawing;
        this.drawing = null;
        this.draw();
        return;
      }
      const rates = this.now.tried.map(([rate]) => rate);
      const middle = (this.data.lines["trigram counts"] + this.data.lines["letter frequencies"]) / 2;
      this.drawing = new Map(rates.map((rate) => [rate, middle]));
      this.draw();
      this.part(".u [role=slider]").focus();
    }

    point(x, y, down) {
      const { to, at } = this.axes;
      const near = (rates) => rates.reduce((a, b) => (Math.abs(to(a) - x) <= Math.abs(to(b) - x) ? a : b));
      if (this.drawing) {
        this.move(near([...this.drawing.keys()]), at(y));
      } else if (this.stops.length) {
        this.rate = near(this.stops);
        this.draw();
        this.keep();
      }
      if (down && this.drawing) this.part(`.u [data-rate="${near([...this.drawing.keys()])}"]`).focus();
    }

    press(event) {
      const mark = event.target.closest("[role=slider]");
      if (!mark) return;
      const rate = +mark.dataset.rate, marks = [...this.box.querySelectorAll(".u [role=slider]")];
      const up = { ArrowUp: 0.05, ArrowDown: -0.05, PageUp: 0.25, PageDown: -0.25 }[event.key];
      const aside = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (up) this.move(rate, this.drawing.get(rate) + up);
      else if (aside) marks[marks.indexOf(mark) + aside]?.focus();
      else if (event.key === "Enter") { this.turn(); this.field("draw").focus(); }
      else return;
      event.preventDefault();
    }

    move(rate, loss) {
      this.drawing.set(rate, Math.min(Math.max(loss, this.axes.low), this.axes.high));
      const [x, y] = [this.axes.to(rate), this.axes.on(this.drawing.get(rate))];
      const mark = this.part(`.u [data-rate="${rate}"]`);
      mark.setAttribute("transform", `translate(${x} ${y})`);
      mark.setAttribute("aria-valuenow", this.drawing.get(rate).toFixed(2));
      this.part(".u .yours").setAttribute("d", this.trace(this.drawing));
    }

    trace(drawn) {
      return path([...drawn].map(([rate, loss]) => [this.axes.to(rate), this.axes.on(loss)]));
    }

    // -- what is shown ---------------------------------------------------------------------------
    get now() { return this.data.recipes[this.recipe]; }
    get then() { return this.held && this.held !== this.recipe ? this.data.recipes[this.held] : null; }

    // Show another block: what the reader drew of the last one goes.
    show() {
      this.drawing = this.drawn = null;
      const tried = (one) => (one ? Object.keys(one.curves).map(Number) : []);
      this.stops = [...new Set([...tried(this.now), ...tried(this.then)])].sort((a, b) => a - b);
      if (!this.stops.includes(this.rate)) {
        // A rate that others tried, too, near the one that was shown, or the one that reports.
        const wanted = this.rate ?? this.now?.rate ?? this.then?.rate ?? this.stops[Math.floor(this.stops.length / 2)];
        const rates = [this.now, this.then].flatMap((one) => one?.tried ?? []).map(([rate]) => rate);
        const far = (rate) => Math.abs(Math.log(rate / wanted));
        if (rates.length) this.rate = rates.reduce((a, b) => (far(a) <= far(b) ? a : b));
      }
      this.dress();
      this.draw();
      this.keep();
    }

    colour(name) {
      const colour = name && this.recipes[name].colour;
      return colour ? `var(--figure-${colour}, ${this.index.colours[colour]})` : "var(--explorer-own)";
    }

    // Put norms into the block's slots, its name above it and its equations below.
    dress() {
      const row = this.recipes[this.recipe];
      const block = this.part(".b");
      block.style.setProperty("--norm", this.colour(this.recipe));
      for (const mark of block.querySelectorAll(".slot")) {
        const on = this.slots.has(mark.dataset.slot);
        mark.setAttribute("aria-disabled", !this.findNearest(mark.dataset.slot));
        if (mark.getAttribute("aria-checked") === String(on)) continue;
        mark.dataset.on = on;
        mark.setAttribute("aria-checked", on);
        const off = SLOTS[mark.dataset.slot][3];
        if (off === "+") mark.querySelector("text").textContent = on ? "norm" : off;
      }
      block.querySelector(".name").textContent = row.name;
      block.querySelector(".words").innerHTML = this.describe(row);
      const a = this.part(".a"), other = this.held && this.recipes[this.held];
      a.hidden = !other || this.held === this.recipe;
      this.part(".panes").classList.toggle("two", !a.hidden);
      if (!a.hidden && a.dataset.of !== this.held) {
        a.dataset.of = this.held;
        a.style.setProperty("--norm", this.colour(this.held));
        a.innerHTML = `<p class="name">A: ${escape(other.name)}</p>${drawBlock(this.index, new Set(other.slots), false)}
          <p class="words">${this.describe(other)}</p>`;
        a.querySelector("svg").setAttribute("aria-label", `Block A, ${other.name}: norms on ${other.slots.map((s) => this.index.slots[s]).join("; ") || "nothing"}`);
      }
      this.field("recipe").value = this.recipe;
      this.field("rung").value = this.rung;
      const hold = this.field("hold");
      hold.setAttribute("aria-pressed", Boolean(this.held));
      hold.disabled = !this.held && !this.now;
    }

    describe(row) {
      const last = row.last ? "<br>a last norm after the last block" : "";
      return [row.equations.map(escape).join("<br>"), ...row.also.map(escape)].join("<br>") + last;
    }

    draw() {
      const draw = this.field("draw");
      draw.disabled = !this.drawing && !this.now?.tried.length;
      draw.setAttribute("aria-pressed", Boolean(this.drawing));
      draw.textContent = this.drawing ? "show the result" : "draw a guess";
      this.box.classList.toggle("drawing", Boolean(this.drawing));
      this.box.classList.toggle("idle", !this.stops.length);
      const range = this.field("rate"), place = this.stops.indexOf(this.rate);
      range.max = Math.max(0, this.stops.length - 1);
      range.value = place;
      range.disabled = !this.stops.length || Boolean(this.drawing);
      const said = this.sayRate();
      range.setAttribute("aria-valuetext", said);
      this.part("output").textContent = said;
      this.drawRates();
      const told = this.say();
      if (told !== this.told) this.part(".said").innerHTML = this.told = told; // said once, not at each rate
      if (this.drawing || !this.part(".low").open) return;
      this.drawTraining();
      this.drawDepth();
      this.drawSeeds();
    }

    // A panel's size and the part of it that has data. To ask the page for a width makes it lay
    // itself out: once for each width of the explorer.
    measure(name, high) {
      const svg = this.part(`.${name} svg`), key = `${name} ${this.width} ${this.box.firstChild.className}`;
      if (!this.widths.has(key)) this.widths.set(key, Math.max(200, Math.round(svg.parentElement.clientWidth)));
      const wide = this.widths.get(key);
      const wanted = `0 0 ${wide} ${high}`;
      if (svg.getAttribute("viewBox") !== wanted) {
        svg.setAttribute("viewBox", wanted);
        svg.setAttribute("width", wide);
        svg.setAttribute("height", high);
      }
      return { svg, wide, high, right: wide - MARGIN.right, bottom: high - MARGIN.bottom };
    }

    // Below is what stays while the reader clicks, and is made again where its key is another;
    // above it what changes.
    paint({ svg, wide }, key, below, above) {
      if (svg.childElementCount !== 2) svg.innerHTML = "<g></g><g></g>";
      const still = `${this.rung} ${wide} ${key}`;
      if (svg.dataset.still !== still) svg.firstChild.innerHTML = below();
      svg.dataset.still = still;
      svg.lastChild.innerHTML = above;
    }

    grid(marks, to, area) {
      const digits = Math.max(...marks.map((mark) => `${mark}`.split(".")[1]?.length ?? 0));
      const write = (mark) => (marks.some((other) => other >= 100 * mark) ? `${mark}` : mark.toFixed(digits));
      return marks.map((mark) => `<path class="hair" d="M${MARGIN.left} ${to(mark)}H${area.right}"/>`
        + words(MARGIN.left - 5, to(mark) + 4, write(mark), 'text-anchor="end"')).join("");
    }

    // The two that are compared, A below: class, entry, colour.
    get both() {
      return [["a", this.then, this.colour(this.held)], ["b", this.now, this.colour(this.recipe)]].filter(([, one]) => one);
    }

    drawRates() {
      const area = this.measure("u", 216), rows = Object.values(this.data.recipes).map((r) => r.tried);
      const { lines } = this.data;
      const rates = rows.flat().map(([rate]) => rate), losses = rows.flat().flatMap(([, , all]) => all);
      const high = Math.max(...Object.values(lines)) + 0.1, low = Math.min(...losses) - 0.06;
      const to = scale(Math.min(...rates), Math.max(...rates), MARGIN.left + 12, area.right - 12, true);
      const on = scale(low, high, area.bottom, MARGIN.top + 12);
      this.axes = { to, on, low, high, at: scale(area.bottom, MARGIN.top + 12, low, high) };
      const capped = (tried) => tried.filter(([, mean]) => mean !== null).map(([rate, mean]) => [to(rate), on(Math.min(mean, high))]);
      const below = () => {
        const wanted = [0.0001, 0.001, 0.01, 0.1, 1].filter((r) => r >= Math.min(...rates) && r <= Math.max(...rates));
        const marks = (wanted.length > 1 ? wanted : [...new Set(rates)]).map((rate) => words(to(rate), area.bottom + 16, rate, 'text-anchor="middle"'));
        const known = Object.entries(lines).map(([name, loss]) => `<path class="line" d="M${MARGIN.left} ${on(loss)}H${area.right}"/>`
          + words(MARGIN.left + 6, on(loss) - 4, name));
        const grey = this.drawing ? "" : this.grey(rows.map(capped));
        return this.grid(ticks(low, high), on, area) + marks.join("") + known.join("") + grey;
      };
      let made = "";
      if (this.drawing) {
        made += `<path class="yours" d="${this.trace(this.drawing)}"/>`;
        for (const [rate, loss] of this.drawing)
          made += `<g role="slider" tabindex="0" data-rate="${rate}" transform="translate(${to(rate)} ${on(loss)})" aria-orientation="vertical"
            aria-label="loss at rate ${rate}" aria-valuemin="${low.toFixed(2)}" aria-valuemax="${high.toFixed(2)}" aria-valuenow="${loss.toFixed(2)}"><circle r="12"/><circle r="5"/></g>`;
      } else {
        if (this.stops.length) made += `<rect class="band" x="${to(this.rate) - 9}" y="${MARGIN.top}" width="18" height="${area.bottom - MARGIN.top}"/>`;
        for (const [which, { tried }, colour] of this.both) {
          const points = capped(tried);
          made += `<g class="of ${which}" style="--norm: ${colour}">`;
          if (points.length) made += `<path d="${path(points)}"/>`;
          for (const [rate, , all, ends] of tried) {
            for (const loss of all) made += `<circle cx="${to(rate)}" cy="${on(Math.min(loss, high))}" r="3"><title>${rate}: ${nats(loss, 3)}</title></circle>`;
            if (ends.length) made += `<path class="cross" d="M${to(rate) - 5} ${MARGIN.top - 1}l10 10m0-10l-10 10"><title>${rate}: diverged at step ${ends.join(", ")}</title></path>`;
          }
          made += "</g>";
        }
        if (this.drawn) made += `<path class="yours" d="${this.trace(this.drawn)}"/>`;
      }
      this.paint(area, Boolean(this.drawing), below, made);
      area.svg.setAttribute("role", this.drawing ? "group" : "img");
      area.svg.setAttribute("aria-label", this.drawing ? "Your curve: a slider for each learning rate" : this.hear(
        "Validation loss by learning rate", ({ tried }) => tried.map(([rate, mean, , ends]) => `${rate}: ${ends.length ? "diverged" : nats(mean, 2)}`).join(", ")));
    }

    grey(lines) {
      return `<path class="others" d="${lines.filter((points) => points.length > 1).map(path).join("")}"/>`;
    }

    hear(what, read) {
      const heard = this.both.map(([which, one]) => `${which === "a" ? "A, " : ""}${this.recipes[which === "a" ? this.held : this.recipe].name}: ${read(one)}`);
      return `${what}. ${heard.join(". ")}`;
    }

    drawTraining() {
      const area = this.measure("t", 150), { steps, recipes, lines } = this.data;
      const high = lines["letter frequencies"] + 1.2;
      const low = this.lowest;
      const to = scale(0, steps, MARGIN.left, area.right), on = scale(low, high, area.bottom, MARGIN.top);
      const line = (one) => {
        const [every, losses] = one.curves[this.rate] ?? [1, []];
        return losses.map((loss, i) => [to(Math.min((i + 0.5) * every, steps)), on(Math.min(loss ?? high, high))]);
      };
      const below = () => this.grid(ticks(low, high), on, area) + this.grey(Object.values(recipes).map(line))
        + ticks(0, steps).map((step) => words(to(step), area.bottom + 16, step, `text-anchor="${step ? "middle" : "start"}"`)).join("");
      let made = "";
      for (const [which, one, colour] of this.both) {
        const points = line(one), ends = one.tried.find(([rate]) => rate === this.rate)?.[3] ?? [];
        if (points.length > 1) made += `<g class="of ${which}" style="--norm: ${colour}"><path d="${path(points)}"/></g>`;
        if (ends.length && points.length) made += `<g class="of ${which}" style="--norm: ${colour}"><path class="cross" d="M${points.at(-1)[0] - 5} ${points.at(-1)[1] - 5}l10 10m0-10l-10 10"/></g>`;
      }
      this.paint(area, this.rate, below, made);
      area.svg.setAttribute("aria-label", this.hear(`Training loss at rate ${this.rate}`, (one) => {
        const losses = one.curves[this.rate]?.[1];
        return losses ? `from ${nats(losses[0], 2)} to ${nats(losses.at(-1) ?? NaN, 2)}` : "not tried";
      }));
    }

    drawDepth() {
      const what = this.field("depth").value, [, log] = BLOCKS[what], area = this.measure("d", 150);
      const read = (one) => one["by block"]?.[what];
      const all = Object.values(this.data.recipes).map(read).filter(Boolean);
      if (!all.length) { this.paint(area, "", () => words(MARGIN.left, 40, "not measured at this size"), ""); return; }
      const values = all.flat().filter((value) => value !== null && (!log || value > 0));
      const low = Math.min(...values), high = Math.max(...values), count = Math.max(...all.map((row) => row.length));
      const to = scale(0, count - 1, MARGIN.left + 8, area.right - 8), on = scale(low, high, area.bottom - 6, MARGIN.top + 4, log);
      const line = (row) => row.map((value, i) => [to(i), on(log ? Math.max(value ?? low, low) : value ?? low)]);
      const below = () => {
        const first = what === "stream" ? 0 : 1, skip = Math.ceil(count / 8); // the stream is read before the first block, too
        const marks = [...Array(count).keys()].filter((i) => i % skip === 0).map((i) => words(to(i), area.bottom + 16, i + first, 'text-anchor="middle"'));
        return this.grid(ticks(low, high, log), on, area) + marks.join("") + this.grey(all.map(line));
      };
      let made = "";
      for (const [which, one, colour] of this.both)
        if (read(one)) made += `<g class="of ${which}" style="--norm: ${colour}"><path d="${path(line(read(one)))}"/></g>`;
      this.paint(area, what, below, made);
      area.svg.setAttribute("aria-label", this.hear(`${BLOCKS[what][0]} by block`, (one) => read(one)?.join(", ") ?? "not measured"));
    }

    drawSeeds() {
      const area = this.measure("s", 150), reported = Object.entries(this.data.recipes).filter(([, r]) => r.mean !== undefined);
      if (!reported.length) { this.paint(area, "", () => "", ""); return; }
      const ends = reported.flatMap(([, r]) => [...r.seeds, ...r.interval]);
      const low = Math.min(...ends), high = Math.max(...ends), foot = area.bottom;
      const to = scale(low, high, MARGIN.left - 20, area.right - 6);
      const below = () => `<path class="axis" d="M${to(low)} ${foot}H${to(high)}"/>`
        + ticks(low, high).map((loss) => `<path class="axis" d="M${to(loss)} ${foot}v4"/>` + words(to(loss), foot + 17, loss.toFixed(2), 'text-anchor="middle"')).join("")
        + reported.map(([name, r]) => `<path class="tick" style="--norm: ${this.colour(name)}" d="M${to(r.mean)} ${foot}v-14"><title>${escape(r.mean)}: ${escape(this.recipes[name].name)}</title></path>`).join("")
        + words(to(high), foot - 20, "tick: mean of another recipe", 'text-anchor="end"');
      let made = "";
      for (const [which, one, colour] of this.both) {
        if (one.mean === undefined) continue;
        const y = which === "a" ? 78 : 34, [from, until] = one.interval.map(to);
        made += `<g class="of ${which}" style="--norm: ${colour}"><path d="M${from} ${y}H${until}M${to(one.mean)} ${y - 7}v14"/>`;
        for (const loss of one.seeds) made += `<circle cx="${to(loss)}" cy="${y - 13}" r="2.6"><title>${loss}</title></circle>`;
        const room = until < area.right - 130;
        made += words(room ? until + 8 : from - 8, y + 4, `${which === "a" ? "A " : ""}${nats(one.mean)}`, `class="value" text-anchor="${room ? "start" : "end"}"`) + "</g>";
      }
      this.paint(area, "", below, made);
      area.svg.setAttribute("aria-label", this.hear("Test loss of the evaluation seeds", (one) =>
        (one.mean === undefined ? "nothing yet" : `${nats(one.mean)}, 95 % interval ${nats(one.interval[0])} to ${nats(one.interval[1])}`)));
    }

    // -- what is said ----------------------------------------------------------------------------
    sayRate() {
      if (!this.stops.length) return "";
      const at = (one) => {
        const found = one.tried.find(([rate]) => rate === this.rate);
        if (!found) return this.rate === one.rate ? "the learning rate of the evaluation" : "not tried";
        return found[3].length ? `diverged at step ${found[3].join(", ")}` : `validation ${nats(found[1], 3)}`;
      };
      const parts = this.both.map(([which, one]) => `${which === "a" ? "A " : ""}${at(one)}`);
      return `${this.rate}: ${parts.reverse().join("; ")}`;
    }

    say() {
      const { now } = this;
      if (this.drawing) return "<p>What will it be? Drag each point to the loss that you expect, or move it with the arrow keys. Then press <i>show the result</i>.</p>";
      if (!now) return this.sayNothing();
      const name = `<b>${escape(this.recipes[this.recipe].name)}</b>`;
      if (now.mean === undefined) return `<p>${name} has not been evaluated at size ${this.rung} yet: ${escape(now.why)}.</p>${this.sayDrawn()}`;
      const seeds = `${now.seeds.length} seeds`;
      return `${this.sayMoved()}<p>${name} reaches a test loss of ${nats(now.mean)} nats (${seeds}, 95 % interval ${nats(now.interval[0])} to ${nats(now.interval[1])}) at a learning rate of
        ${now.rate}. ${now.report === "strict" ? "Full" : "Preliminary"} evaluation: ${escape(now.why)}.</p>${this.sayPair()}${this.sayDrawn()}`;
    }

    sayMoved() {
      if (!this.moved) return "";
      const { slot, before } = this.moved, on = this.slots.has(slot);
      const list = (added) => Object.entries(this.index.slots)
        .filter(([s]) => s !== slot && this.slots.has(s) === added && before.has(s) !== added).map(([, text]) => text).join(" and ");
      const also = [[list(true), "adds a norm on"], [list(false), "removes the norm on"]].filter(([of]) => of).map(([of, what]) => `${what} ${of}`);
      return `<p>You ${on ? "put a norm on" : "took the norm off"} ${this.index.slots[slot]}.${
        also.length ? ` The nearest block that we trained also ${also.join(" and ")}.` : ""}</p>`;
    }

    sayPair() {
      const lost = this.held && this.held !== this.recipe && !this.then;
      const absent = lost ? `<p>A, ${escape(this.recipes[this.held].name)}, is not recorded at size ${this.rung}.</p>` : "";
      const other = this.then ? this.held : this.index.over;
      const pair = other === this.recipe ? null : this.compare(this.recipe, other);
      if (!pair) return absent;
      const { mean, low, high, told } = pair, name = escape(this.recipes[other].name);
      const lacks = [...new Set([...(this.now.lacks ?? []), ...(this.data.recipes[other].lacks ?? [])])];
      const above = (low > 0) === (high > 0);
      const verdict = lacks.length ? `No verdict: ${escape(lacks.join("; "))}`
        : told ? `The difference is significant, also after Holm’s correction for testing all ${this.data.pairs.length} pairs`
          : above ? `This interval is for one pair. Of all ${this.data.pairs.length} pairs some exclude 0 by chance; the leaderboard corrects for its own pairs`
            : "The difference is not significant";
      const [side, from, to] = mean < 0 ? ["higher", -high, -low] : ["lower", low, high];
      return `${absent}<p>That is ${nats(Math.abs(mean))} nats ${side} than ${this.then ? "A, " : ""}${name} (95 % interval
        ${nats(from)} to ${nats(to)}). ${verdict}.</p>`;
    }

    // How far the first one's mean lies below the second's; pairs stand in the order of the file.
    compare(one, other) {
      const { order, pairs } = this.data, i = order.indexOf(one), j = order.indexOf(other), n = order.length;
      if (i < 0 || j < 0) return null;
      const [a, b] = i < j ? [i, j] : [j, i];
      const [mean, low, high, told] = pairs[a * n - (a * (a + 1)) / 2 + b - a - 1];
      return i < j ? { mean, low, high, told } : { mean: -mean, low: -high, high: -low, told };
    }

    sayDrawn() {
      if (!this.drawn) return "";
      const gaps = this.now.tried.filter(([, mean]) => mean !== null)
        .map(([rate, mean]) => [rate, this.drawn.get(rate), Math.min(mean, this.axes.high)]);
      const [rate, yours, loss] = gaps.reduce((a, b) => (Math.abs(a[1] - a[2]) >= Math.abs(b[1] - b[2]) ? a : b));
      const lost = this.now.tried.filter(([, , , ends]) => ends.length).map(([at]) => at);
      return `<p>Your curve is dotted. You were furthest off at ${rate}: ${nats(yours, 2)} drawn, ${nats(loss, 2)} measured.${
        lost.length ? ` At ${lost.join(", ")} it diverged.` : ""}</p>`;
    }

    sayNothing() {
      const cost = this.data.minutes ? `, some ${this.data.minutes} minutes of one core` : "";
      return `<p>Nobody has recorded <b>${escape(this.recipes[this.recipe].name)}</b> at size ${this.rung}. Another size may have it.</p>
        <p>This trains it${cost}; with <code>--look</code> for a first minute alone:<br><code class="command">labkit leaderboard ${this.index.over} '${escape(this.recipe)}' --rung ${this.rung}</code></p>`;
    }

    // The address says what is shown, so that it can be sent to somebody.
    keep() {
      if (!this.touched) return;
      const wanted = new URLSearchParams();
      wanted.set("r", this.recipe);
      if (this.held) wanted.set("a", this.held);
      if (this.rung !== Object.keys(this.index.rungs)[0]) wanted.set("rung", this.rung);
      if (this.rate) wanted.set("lr", this.rate);
      try {
        history.replaceState(null, "", `?${wanted}${location.hash}`);
      } catch { /* a page without an address of its own keeps nothing */ }
    }

    async open(preset) {
      const wanted = new URLSearchParams(preset), asked = new URLSearchParams(location.search);
      if (asked.has("r")) for (const name of ["r", "a", "rung", "lr"]) {
        wanted.delete(name);
        if (asked.has(name)) wanted.set(name, asked.get(name));
      }
      if (wanted.get("rung") in this.index.rungs) this.rung = wanted.get("rung");
      if (this.recipes[wanted.get("a")]) this.held = wanted.get("a");
      if (wanted.has("lr")) this.rate = Number(wanted.get("lr")) || null;
      this.recipe = this.recipes[wanted.get("r")] ? wanted.get("r") : this.index.over;
      this.slots = new Set(this.recipes[this.recipe].slots);
      for (const kind of ["click", "input", "change", "keydown"])
        this.box.addEventListener(kind, () => { this.touched = true; }, true);
      await this.climb(this.rung);
    }
  }

  // Where the data do not come, the picture stays.
  async function open(figure) {
    try {
      await new Explorer(figure, await load("index")).open(figure.dataset.explorer);
    } catch {
      figure.querySelector(".labkit-explorer")?.remove();
      figure.classList.remove("labkit-live");
    }
  }

  const start = () => document.querySelectorAll("figure[data-explorer]").forEach(open);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
