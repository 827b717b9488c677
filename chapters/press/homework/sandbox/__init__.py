"""Run a submission where it can neither read the tests nor write its own marks.

Three processes share the work. The *grader* is trusted: it holds tests, inputs and every
comparison. The *zygote* has imported the packages of a homework and nothing else: no test, no
submission. A *worker* is forked from the zygote for one question, confined, and only then given
the submission; it sends values back (JSON and raw tensor bytes, never pickle), so a forged reply
is a wrong value and no more.

    with Sandbox("full", packages=("torch", "numpy")) as sandbox:
        with sandbox.worker(program) as worker:
            answer = worker.call("rms_norm", x, eps=1e-6)     # -> Answer

A worker is one process: in every mode it can start threads and no process, no program, no socket.
The modes differ in the walls around it:

    mode        needs                 walls beside the system-call list (seccomp) and rlimits
    full        root                  own mount, pid, ipc and network namespaces; a read-only root
                                      that holds Python and the packages; own uid, no capability;
                                      cgroup v1 memory and pids where writable, swap off; Landlock
    restricted  root, but not         own uid, no capability; Landlock
                CAP_SYS_ADMIN
    plain       no privilege          Landlock (signals too where the kernel has it)

What the walls do not do, so that nobody relies on it:

- All that a worker needs is readable to a submission: the probes, the packages, the values asked
  about. A solution in a package that `packages` names is a solution given away.
- A time, or "the loss went down", that is measured inside a worker can be faked. `Answer.seconds`
  is measured by the grader.
- Flaws of the kernel are out of scope.
- `packages` is a wall for files in every mode: what is not named, and not needed by what is named,
  cannot be read. Among what can be read (the standard library, what the packages depend on) an
  import hook says no with a clear message, and hostile code gets past it.
- In the modes restricted and plain there is no cap on memory as a whole: the address space is
  capped, and since a worker is one process that bounds it; the cap on the temporary folder's size
  is looked at twenty times a second and not enforced by a mount; a worker can see which paths
  exist, though not read them.
- In plain mode the worker has the grader's own uid: Landlock and the system-call list are all.
"""

from press.homework.sandbox.answer import Answer as Answer
from press.homework.sandbox.box import Sandbox as Sandbox
from press.homework.sandbox.limits import Limits as Limits
from press.homework.sandbox.modes import Unavailable as Unavailable
from press.homework.sandbox.modes import available as available
from press.homework.sandbox.worker import Worker as Worker
