// Reads numbers as a reader types them, and judges answers by hand by the rule of labkit's
// check.answer (labkit/check/compare.py); tests/test_answers_js.py holds both to one table.

(() => {
  // -- arithmetic: numbers, + - * / ^, brackets, pi and e, and functions of one number -----------------
  const FUNCTIONS = {
    sqrt: Math.sqrt, exp: Math.exp, ln: Math.log, log: Math.log, log2: Math.log2, log10: Math.log10,
    abs: Math.abs, sin: Math.sin, cos: Math.cos, tan: Math.tan,
  };
  const CONSTANTS = { pi: Math.PI, "π": Math.PI, e: Math.E };
  const TOKEN = /\s*(?:(\d+(?:_\d+)*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([a-zπ]\w*)|(\*\*|[-+*/^()√]))/giy;

  class Unreadable extends Error {}

  // Read a number or a formula; a comma between digits is a decimal mark.
  function readNumber(text) {
    const plain = text.trim().replace(/[−–]/g, "-").replace(/[×·]/g, "*").replace(/÷/g, "/");
    if (/(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d])/.test(plain))
      throw new Unreadable(`“${text.trim()}” can be read in two ways; leave the comma out, or write a point`);
    const tokens = tokenize(plain.replace(/(\d),(?=\d)/g, "$1."), text.trim());
    const value = readSum(tokens);
    if (tokens.length) throw unread(text.trim());
    if (Number.isNaN(value)) throw new Unreadable(`“${text.trim()}” is no number`);
    return value;
  }

  const unread = (text) =>
    new Unreadable(`“${text}” cannot be read; write a number such as 4.55, 1/3, 2^24 or sqrt(12)`);

  function tokenize(plain, text) {
    const tokens = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < plain.length) {
      const at = TOKEN.lastIndex;
      const found = TOKEN.exec(plain);
      if (!found) {
        if (plain.slice(at).trim() === "") break;
        throw unread(text);
      }
      const [, number, name, sign] = found;
      if (number !== undefined) tokens.push({ number: Number(number.replaceAll("_", "")) });
      else if (name !== undefined) tokens.push({ name: name.toLowerCase() });
      else tokens.push({ sign: sign === "**" ? "^" : sign });
    }
    tokens.text = text;
    return tokens;
  }

  const next = (tokens, ...signs) => signs.includes(tokens[0]?.sign) && tokens.shift().sign;

  function readSum(tokens) {
    let value = readProduct(tokens);
    for (let sign; (sign = next(tokens, "+", "-"));) {
      const other = readProduct(tokens);
      value = sign === "+" ? value + other : value - other;
    }
    return value;
  }

  function readProduct(tokens) {
    let value = readSigned(tokens);
    for (let sign; (sign = next(tokens, "*", "/"));) {
      const other = readSigned(tokens);
      value = sign === "*" ? value * other : value / other;
    }
    return value;
  }

  // As in Python, a power binds closer than the sign before it, and looser than the one behind.
  function readSigned(tokens) {
    const sign = next(tokens, "-", "+");
    if (sign) return sign === "-" ? -readSigned(tokens) : readSigned(tokens);
    const base = readAtom(tokens);
    return next(tokens, "^") ? base ** readSigned(tokens) : base;
  }

  function readAtom(tokens) {
    const token = tokens.shift();
    if (token?.number !== undefined) return token.number;
    if (token?.sign === "√") return Math.sqrt(readAtom(tokens));
    if (token?.sign === "(") {
      const value = readSum(tokens);
      if (!next(tokens, ")")) throw unread(tokens.text);
      return value;
    }
    if (token?.name !== undefined && Object.hasOwn(CONSTANTS, token.name)) return CONSTANTS[token.name];
    if (token?.name !== undefined && Object.hasOwn(FUNCTIONS, token.name) && tokens[0]?.sign === "(")
      return FUNCTIONS[token.name](readAtom(tokens));
    throw unread(tokens.text);
  }

  // -- the verdict --------------------------------------------------------------------------------------
  const WRONG = "not right yet";

  // given: {key: what came for it}, a text (of a number or a word), a list of texts, true, false, or null.
  // Returns {ok, message}; the message is labkit's.
  function judge(task, given) {
    const { asks } = task;
    const alone = asks.length === 1 && asks[0].key === "";
    const open = asks.filter(({ key }) => isOpen(given[key]));
    if (open.length) {
      const names = !alone && open.length < asks.length ? `: ${open.map(({ key }) => key).join(", ")}` : "";
      return { ok: false, message: `not answered yet${names}` };
    }
    let faults;
    try {
      faults = asks.map((one) => [one.key, findFault(one, given[one.key], task.rtol)]).filter(([, fault]) => fault);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      return { ok: false, message: error.message }; // a slip of the pen earns no hint
    }
    if (!faults.length) return { ok: true, message: "right" };
    const message = alone ? faults[0][1] : `${WRONG}: ${faults.map(([key]) => key).join(", ")}`;
    return { ok: false, message: task.hint ? `${message}. Hint: ${task.hint}` : message };
  }

  function isOpen(given) {
    if (Array.isArray(given)) return given.some(isOpen);
    return given === null || given === undefined || (typeof given === "string" && /^[ .?…]*$/.test(given));
  }

  function findFault({ kind, truth }, given, rtol) {
    if (kind === "word") return normalizeText(given) === normalizeText(truth) ? "" : "not this one";
    if (kind === "yes or no") return given === truth ? "" : "not this one";
    const wanted = [truth].flat();
    const actual = [given].flat().map(readNumber);
    const largest = Math.max(0, ...wanted.map(Math.abs).filter(Number.isFinite)) || 1;
    const wrong = actual.filter((value, i) => !(value === wanted[i] || Math.abs(value - wanted[i]) <= rtol * largest));
    if (!wrong.length) return "";
    const are = wrong.length === 1 ? "is" : "are";
    return wanted.length === 1 ? WRONG : `${wrong.length} of ${wanted.length} ${are} wrong`;
  }

  const normalizeText = (text) => text.replace(/\s+/g, " ").replace(/^[ .]+|[ .]+$/g, "").toLowerCase();

  globalThis.labkitJudge = { judge, readNumber };
})();
