"""Run a submission that can neither read the tests nor write its own marks.

Three processes share the work. The *grader* is trusted: it holds tests, inputs and every
comparison. The *zygote* has imported the packages of a homework and nothing else: no test, no
submission. A *worker* is forked from the zygote for one question, confined, and only then given
the submission; it sends values back (JSON and raw tensor bytes, never pickle), so a forged reply
is a wrong value and no more.

    with Sandbox(packages=("torch", "numpy")) as sandbox:
        with sandbox.open_worker(program) as worker:
            answer = worker.call("rms_norm", x, eps=1e-6)     # -> Answer

Around the zygote and its workers bubblewrap puts mount, pid, ipc and network namespaces of their
own, and a read-only root that holds Python and the packages. Inside, each worker confines itself:
Landlock shows it its own folder and what it may read, a list of system calls (seccomp) lets it
start threads and no process, no program, no socket, and limits on resources cap it. All of this
works for any user. Where one of them is not to be had nothing runs: `needs` says what is missing.

Where a control group can be made (version 1 or 2; root mostly) it caps all memory of a worker, swap
included; elsewhere the address space is capped, and since a worker is one process that bounds it.
`Sandbox.no_group` says which.

What the walls do not do, so that nobody relies on it:

- All that a worker needs is readable to a submission: the probes, the packages, the values asked
  about. A solution in a package that `packages` names is a solution given away.
- A time, or "the loss went down", that is measured inside a worker can be faked. `Answer.seconds`
  is measured by the grader.
- Flaws of the kernel are out of scope.
- `packages` is a wall for files: what is not named, and not needed by what is named,
  cannot be read. Among what can be read (the standard library, what the packages depend on) an
  import hook says no with a clear message, and hostile code gets past it.
- The cap on the temporary folder's size is looked at twenty times a second: for a moment there may
  be more in it.
- Workers have the grader's own user number, behind the walls above.
"""

from press.homework.sandbox.answer import Answer as Answer
from press.homework.sandbox.limits import Limits as Limits
from press.homework.sandbox.needs import Unavailable as Unavailable
from press.homework.sandbox.sandbox import Sandbox as Sandbox
from press.homework.sandbox.worker import Worker as Worker
