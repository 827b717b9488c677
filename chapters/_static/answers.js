// Exercises answered in the page: a box in the place of each stub, by hand or in code.
//
// An element .labkit-exercise follows a stub's cell; its data-exercise has, encoded, what
// press/site/exercises.py wrote. By hand an answer is judged by judge.js, at once. Code runs in a
// worker, in Pyodide, which the first check starts. What a reader types stays in this browser.

(() => {
  const ANSWERS = "labkit-answers"; // {page#number: {mark, given or text, verdict}}
  const SECONDS = 5;
  const SCRIPT = document.currentScript;

  // -- what is kept ------------------------------------------------------------------------------------
  const Kept = {
    all: {}, // what this page knows; where the browser stores nothing, all there is
    load() {
      try { this.all = JSON.parse(localStorage.getItem(ANSWERS) ?? "{}") ?? {}; } catch { /* refused, or not ours */ }
    },
    put(key, value) {
      this.load(); // another tab may have answered something
      this.all[key] = value;
      try { localStorage.setItem(ANSWERS, JSON.stringify(this.all)); } catch { /* refused: for the page's life */ }
    },
  };

  // -- Python, in a worker ---------------------------------------------------------------------------
  const Python = {
    worker: null,
    queue: Promise.resolve(), // one answer at a time

    // Why code cannot be checked here; "" where it can.
    get lack() {
      if (location.protocol === "file:")
        return "Pages that lie on a disk cannot start Python. Serve the folder: python -m http.server";
      return SCRIPT.dataset.python === "yes" ? "" : "This copy of the site was built without Python for its pages";
    },

    check(text, task, tell) {
      const result = this.queue.then(() => this.run(text, task, tell));
      this.queue = result.catch(() => {});
      return result;
    },

    async run(text, task, tell) {
      if (!this.worker) tell("Starting Python in this page, once (6 MB). Nothing is installed or sent.");
      this.worker ??= this.start();
      const worker = await this.worker;
      tell("Checking …");
      const verdict = await new Promise((resolve) => {
        const stop = setTimeout(() => {
          this.end(worker);
          resolve({ message: `stopped after ${SECONDS} seconds: does a loop in it never end?`, cause: "" });
        }, 1000 * SECONDS);
        worker.onmessage = ({ data }) => { clearTimeout(stop); resolve(data.verdict); };
        worker.onerror = (event) => {
          clearTimeout(stop);
          this.end(worker);
          resolve({ message: `Python broke off: ${event.message}`, cause: "" });
        };
        worker.postMessage({ text, task: JSON.stringify(task) });
      });
      return verdict;
    },

    start() {
      return new Promise((resolve, reject) => {
        const worker = new Worker(new URL("answers-worker.js", SCRIPT.src), { type: "module" });
        const fail = (message) => { this.end(worker); reject(new Error(`Python did not start: ${message}`)); };
        worker.onmessage = ({ data }) => (data.state === "ready" ? resolve(worker) : fail(data.message));
        worker.onerror = (event) => fail(event.message ?? "its files are missing");
      });
    },

    end(worker) {
      worker.terminate();
      this.worker = null;
    },
  };

  // -- a box -------------------------------------------------------------------------------------------
  class Box {
    constructor(place, stub) {
      this.task = decode(place.dataset.exercise);
      this.mark = hash(place.dataset.exercise);
      this.stub = stub;
      this.number = this.task.name || findNumber(stub);
      this.key = `${location.pathname.split("/").pop()}#${this.number}`;
      this.form = make("form", "labkit-box", "", { "aria-label": `Your answer to exercise ${this.number}`, novalidate: "" }); // predict.js
      this.verdict = make("div", "verdict", "", { role: "status" });
      this.buttons = make("div", "buttons");
      this.buttons.append(make("button", "", "Check", { type: "submit" }));
      this.form.addEventListener("submit", (event) => { event.preventDefault(); this.check(); });
    }

    get kept() {
      const one = Kept.all[this.key];
      return one?.mark === this.mark ? one : null; // another question had another answer
    }

    keep(changes) { Kept.put(this.key, { mark: this.mark, ...this.kept, ...changes }); }

    // The box stands where the stub was; the stub and its check, as code, at the end of it.
    build(check) {
      this.form.append(...this.draw(), this.buttons, this.verdict);
      this.stub.before(this.form);
      const code = make("div", "as-code");
      this.form.append(code);
      this.stub.classList.add("labkit-replaced");
      if (check) code.append(check);
      if (this.kept?.verdict) this.tell(this.kept.verdict);
    }

    tell({ ok, message, cause, printed }) {
      this.verdict.dataset.verdict = ok ? "right" : "wrong";
      const said = make("p", "", `${ok ? "✓" : "✗"} ${message}`);
      const beside = cause ? `Likely cause: ${cause}.` : ok ? this.task.note : "";
      const more = beside ? [make("p", "beside", beside)] : [];
      const output = printed ? [make("pre", "", printed, { "aria-label": "What it printed" })] : [];
      this.verdict.replaceChildren(said, ...more, ...output);
    }

    say(text) {
      delete this.verdict.dataset.verdict;
      this.verdict.replaceChildren(make("p", "", text));
    }
  }

  // -- by hand -----------------------------------------------------------------------------------------
  class ByHand extends Box {
    draw() {
      const fields = make("div", "fields");
      this.readers = this.task.asks.map((one) => {
        const [made, reader] = one.kind === "yes or no" ? this.drawChoice(one) : this.drawFields(one);
        fields.append(made);
        return [one.key, reader];
      });
      fields.addEventListener("input", () => {
        this.keep({ given: this.given, verdict: null });
        this.verdict.replaceChildren();
        delete this.verdict.dataset.verdict;
      });
      return [fields];
    }

    get given() { return Object.fromEntries(this.readers.map(([key, reader]) => [key, reader()])); }

    drawFields({ key, kind, truth }) {
      const count = kind === "numbers" ? truth.length : 1;
      const before = [this.kept?.given?.[key] ?? []].flat();
      const inputs = Array.from({ length: count }, (_, i) => {
        const input = make("input", "", "", { type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none" });
        if (kind !== "word") input.inputMode = "text"; // a formula needs letters
        input.value = before[i] ?? "";
        input.setAttribute("aria-label", count > 1 ? `${key || "answer"}, number ${i + 1} of ${count}` : key || "answer");
        return input;
      });
      const label = make("label");
      if (key) label.append(make("span", "", key));
      label.append(...inputs);
      const made = count > 1 ? make("div", "several") : label;
      if (count > 1) made.append(make("span", "", key), ...inputs);
      return [made, () => (kind === "numbers" ? inputs.map((input) => input.value) : inputs[0].value)];
    }

    drawChoice({ key }) {
      const made = make("fieldset");
      made.append(make("legend", "", key || "Your answer"));
      const before = this.kept?.given?.[key];
      const inputs = [["yes", true], ["no", false]].map(([word, value]) => {
        const label = make("label");
        const input = make("input", "", "", { type: "radio", name: `${this.number}-${key}`, value: word });
        input.checked = before === value;
        label.append(input, ` ${word}`);
        made.append(label);
        return [input, value];
      });
      return [made, () => inputs.find(([input]) => input.checked)?.[1] ?? null];
    }

    check() {
      const verdict = labkitJudge.judge(this.task, this.given);
      this.keep({ given: this.given, verdict });
      this.tell(verdict);
    }
  }

  // -- in code -----------------------------------------------------------------------------------------
  class InCode extends Box {
    draw() {
      this.start = this.stub.querySelector("pre").textContent.trimEnd() + "\n";
      this.editor = make("textarea", "", "", {
        spellcheck: "false", autocomplete: "off", autocapitalize: "none", wrap: "off",
        "aria-label": `Your code for exercise ${this.number}`, "aria-describedby": `keys-${this.number}`,
      });
      this.editor.value = this.kept?.text ?? this.start;
      this.fit();
      this.editor.addEventListener("input", () => { this.fit(); this.keep({ text: this.editor.value, verdict: null }); });
      this.editor.addEventListener("keydown", (event) => this.press(event));
      const again = make("button", "quiet", "Start over", { type: "button" });
      again.addEventListener("click", () => this.startOver());
      this.buttons.append(again, make("small", "", "Tab indents; Escape, then Tab, leaves.", { id: `keys-${this.number}` }));
      return [this.editor];
    }

    fit() { this.editor.rows = Math.max(4, this.editor.value.split("\n").length); }

    // Tab indents, until Escape lets it go on to the next field; Enter keeps the indentation.
    press(event) {
      if (event.ctrlKey || event.metaKey) {
        if (event.key === "Enter") { event.preventDefault(); this.form.requestSubmit(); }
        return;
      }
      const { editor } = this;
      if (event.key === "Escape") this.leaving = true;
      else if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
        event.preventDefault();
        const line = editor.value.slice(0, editor.selectionStart).split("\n").pop();
        this.insert(" ".repeat(4 - (line.length % 4)));
      } else if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
        const line = editor.value.slice(0, editor.selectionStart).split("\n").pop();
        const deeper = line.trimEnd().endsWith(":") ? "    " : "";
        event.preventDefault();
        this.insert(`\n${line.match(/^ */)[0]}${deeper}`);
        this.leaving = false;
      } else if (event.key !== "Shift") this.leaving = false;
    }

    // The only way that a browser can undo.
    insert(text) {
      if (!document.execCommand?.("insertText", false, text)) this.editor.setRangeText(text, this.editor.selectionStart, this.editor.selectionEnd, "end");
      this.editor.dispatchEvent(new Event("input"));
    }

    startOver() {
      this.editor.value = this.start;
      this.fit();
      this.keep({ text: this.start, verdict: null });
      this.verdict.replaceChildren();
      delete this.verdict.dataset.verdict;
      this.editor.focus();
    }

    async check() {
      const text = this.editor.value;
      if (Python.lack) {
        this.say(`${Python.lack}. In JupyterLab the cell runs as it stands.`);
        return;
      }
      this.form.setAttribute("aria-busy", "true");
      let verdict;
      try {
        const { message, cause, printed } = await Python.check(text, this.task, (words) => this.say(words));
        verdict = { ok: !message, message: message || "right", cause, printed };
      } catch (error) {
        this.say(`${error.message}. In JupyterLab the cell runs as it stands.`);
        return;
      } finally {
        this.form.removeAttribute("aria-busy");
      }
      this.keep({ text, verdict });
      this.tell(verdict);
    }
  }

  // -- the page ----------------------------------------------------------------------------------------
  const decode = (coded) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(coded), (c) => c.charCodeAt(0))));

  function hash(text) {
    let sum = 0;
    for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0;
    return (sum >>> 0).toString(36);
  }

  // The exercise's number stands in the last paragraph before its stub that begins with one.
  function findNumber(stub) {
    const before = [...document.querySelectorAll(".bd-article p > strong:first-child")].filter((strong) =>
      strong.compareDocumentPosition(stub) & Node.DOCUMENT_POSITION_FOLLOWING && /^\d+\b/.test(strong.textContent));
    return before.pop()?.textContent.match(/^\d+/)[0] ?? "";
  }

  document.addEventListener("DOMContentLoaded", () => {
    Kept.load();
    const stubs = [...document.querySelectorAll("div.cell.tag_exercise")];
    for (const place of document.querySelectorAll(".labkit-exercise")) {
      const stub = stubs.filter((cell) => cell.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
      if (!stub) continue;
      const output = place.closest("div.cell");
      const code = output?.nextElementSibling?.matches("div.cell.tag_hide-input") ? output.nextElementSibling : null;
      const Kind = decode(place.dataset.exercise).kind === "code" ? InCode : ByHand;
      output?.classList.add("labkit-replaced");
    new Kind(place, stub).build(code);
    }
  });
})();
