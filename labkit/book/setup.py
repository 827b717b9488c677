"""Start the set-up of `.venv` on whatever Python is at hand: the first thing that make runs.

Run by path, before anything is installed. Only this file must also be readable by an old Python,
which it refuses in words; the two files beside it do the work.
"""

import os
import sys

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def refusal(version, program):  # no annotations: an old Python reads this file
    """Say why this Python will not do and what to call instead."""
    came = ".".join(str(number) for number in version[:3])
    return (
        f"set-up: the lab book needs Python 3.11 or newer, and {program} is {came}; "
        "install a newer one and name it, for instance: make setup PYTHON=python3.11"
    )


def newer_inside(chosen):
    """Find the Python of a finished `.venv`, which serves when no other one was asked for."""
    python = os.path.join(ROOT, ".venv", "bin", "python")
    finished = os.path.join(ROOT, ".venv", ".labkit-setup.json")
    return python if os.path.exists(python) and os.path.exists(finished) and not chosen else None


def main():
    """Refuse an old Python, then hand over."""
    chosen = "--chosen" in sys.argv[1:]
    if sys.version_info < OLDEST:
        inside = newer_inside(chosen)
        if inside is None:
            print(refusal(sys.version_info, sys.executable), file=sys.stderr)
            return 1
        os.execv(inside, [inside, "-I", os.path.abspath(__file__)])
    sys.path.append(HERE)  # the files beside this one: labkit is not installed yet
    from setup_venv import locked_set_up

    return locked_set_up(ROOT, chosen)


if __name__ == "__main__":
    sys.exit(main())
