// Runs a reader's Python beside the page; answers.js starts it, waits for it and ends it.
//
// Pyodide has neither torch nor NumPy here: `torch` is a stand-in of lists. Nothing is fetched from
// another machine, and nothing leaves this one.

const FILES = ["torch_of_lists.py", "runner.py", "labkit/check/compare.py", "labkit/check/calls.py"];
const HOME = "/book";
const START = `
import sys
sys.path.insert(0, "${HOME}")
import runner, torch_of_lists
runner.install(torch_of_lists)
`;

async function start() {
  const pyodide = new URL("pyodide/", import.meta.url);
  const { loadPyodide } = await import(new URL("pyodide.mjs", pyodide));
  const [python, ...texts] = await Promise.all([
    loadPyodide({ indexURL: pyodide.href }),
    ...FILES.map(async (name) => {
      const answer = await fetch(new URL(`answers/${name}`, import.meta.url));
      if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
      return answer.text();
    }),
  ]);
  python.FS.mkdirTree(`${HOME}/labkit/check`);
  for (const folder of ["labkit", "labkit/check"]) python.FS.writeFile(`${HOME}/${folder}/__init__.py`, "");
  FILES.forEach((name, i) => python.FS.writeFile(`${HOME}/${name}`, texts[i]));
  python.runPython(START);
  return python;
}

const started = start();
started.then(() => postMessage({ state: "ready" }), (error) => postMessage({ state: "failed", message: `${error}` }));

addEventListener("message", async ({ data: { text, task } }) => {
  const python = await started;
  const names = python.toPy({ text, task });
  const verdict = python.runPython("runner.check(text, task, torch_of_lists)", { globals: scope(python, names) });
  postMessage({ state: "checked", verdict: JSON.parse(verdict) });
});

function scope(python, names) {
  const globals = python.globals.copy();
  globals.update(names);
  return globals;
}
