"""Speed of the kernels, compared with copying the same bytes and with their peers.

    python -m normkernels.bench              measure for 8 minutes; call again to go on
    python -m normkernels.bench --steps      whole training steps, for which it needs labkit
    python -m normkernels.bench --dry-run    every line but the GPU's own, tiny, anywhere

share = bytes that must move / time / a copying kernel's bandwidth, same bytes, same process

operations.py  what is computed, with how many bytes      measure.py  all of that, at one size
providers.py   by whom                                    device.py   the GPU and its clocks
plan.py        at which sizes, in which order             results.py  the file; nothing is mixed
check.py       right or wrong                             steps.py    models, their steps

Times and their spread are `triton.testing.do_bench`'s. `triton.testing.perf_report` does not fit:
it asks one provider after the other, keeps nothing when it is stopped, and needs pandas and
matplotlib, where torch and triton are enough for the rest. `labkit show FILE.json` draws and
tabulates the file instead.
"""
