"""How fast the kernels are, beside copying the same bytes and beside their peers.

    python -m normkernels.bench                    measure for 8 minutes; call again to go on
    python -m normkernels.bench --dry-run          every line but the GPU's own, tiny, anywhere
    python -m normkernels.bench tune               would other launch choices be faster here?
    python normkernels/bench/report.py FILE        the table and the targets, from a recorded file

share = bytes that must move / time / copy_'s bandwidth, for the same bytes in the same process

operations.py  what is computed, with how many bytes      results.py  the file; nothing is mixed
providers.py   by whom                                    report.py   table and targets
plan.py        at which sizes, in which order             tune.py     launch choices
check.py       right or wrong                             device.py   the GPU, or the dry run's
timing.py      captured, and timed turn about             measure.py  all of that, at one size
"""
