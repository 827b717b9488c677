"""Run a submission where it can neither read the tests nor write its own marks.

Three processes share the work. The *grader* is trusted: it holds tests, inputs and every
comparison. The *zygote* has imported the packages of a homework and nothing else: no test, no
submission. A *worker* is forked from the zygote for one question, confined, and only then given
the submission; it sends values back (JSON and raw tensor bytes, never pickle), so a forged reply
is a wrong value and no more.

    with Sandbox("full", packages=("torch", "numpy")) as sandbox:
        with sandbox.open_worker(program) as worker:
            answer = worker.call("rms_norm", x, eps=1e-6)     # -> Answer

A worker is one process: in every mode it can start threads and no process, no program, no socket.
A list of system calls (seccomp), Landlock and limits on resources say so. The modes differ in what
stands around that:

    mode        needs                   walls beside those
    full        bubblewrap, and         own mount, pid, ipc and network namespaces; a read-only
                namespaces (any user)   root that holds Python and the packages
    restricted  root, as in a           a user of its own for each worker
                container
    plain       no privilege            none

Where a control group can be made (version 1 or 2; root mostly) it caps all memory of a worker, swap
included; elsewhere the address space is capped, and since a worker is one process that bounds it.
`Sandbox.no_group` says which.

What the walls do not do, so that nobody relies on it:

- All that a worker needs is readable to a submission: the probes, the packages, the values asked
  about. A solution in a package that `packages` names is a solution given away.
- A time, or "the loss went down", that is measured inside a worker can be faked. `Answer.seconds`
  is measured by the grader.
- Flaws of the kernel are out of scope.
- `packages` is a wall for files in every mode: what is not named, and not needed by what is named,
  cannot be read. Among what can be read (the standard library, what the packages depend on) an
  import hook says no with a clear message, and hostile code gets past it.
- The cap on the temporary folder's size is looked at twenty times a second: for a moment there may
  be more in it.
- In full and plain mode workers have the grader's own user number, behind Landlock and the list of
  system calls. In restricted and plain mode a worker can see which paths exist, though not read
  them.
"""

from press.homework.sandbox.answer import Answer as Answer
from press.homework.sandbox.limits import Limits as Limits
from press.homework.sandbox.modes import Unavailable as Unavailable
from press.homework.sandbox.modes import list_modes as list_modes
from press.homework.sandbox.sandbox import Sandbox as Sandbox
from press.homework.sandbox.worker import Worker as Worker
