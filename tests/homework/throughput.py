"""Measure how many submissions of two questions a minute the sandbox runs, a worker a question.

    python tests/homework/throughput.py [SUBMISSIONS] [MODE] [PROCESSES]

The target is 500 on two idle cores; each process is a grader with a zygote of its own.
"""

import multiprocessing
import sys
import time

PROGRAM = """
import torch
def rms_norm(x, eps=1e-6): return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
"""


def grade(mode, submissions, start, done):
    import torch

    from press.homework.sandbox import Sandbox

    torch.set_num_threads(1)
    x = torch.randn(4, 64)
    with Sandbox(mode) as sandbox:
        start.wait()
        begin = time.perf_counter()
        for _ in range(2 * submissions):
            with sandbox.worker(PROGRAM) as worker:
                assert worker.call("rms_norm", x).ok
        done.put(time.perf_counter() - begin)


def main(submissions=100, mode="full", processes=2):
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(processes), context.Queue()
    each = submissions // processes
    graders = [
        context.Process(target=grade, args=(mode, each, start, done)) for _ in range(processes)
    ]
    for grader in graders:
        grader.start()
    seconds = max(done.get() for _ in graders)
    for grader in graders:
        grader.join()
    count = each * processes
    print(f"{mode}: {count} submissions, {2 * count} workers in {seconds:.1f} s: "
          f"{60 * count / seconds:.0f} submissions a minute")  # fmt: skip


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*[int(one) if one.isdigit() else one for one in given])
