"""Speed of the kernels, compared with copying the same bytes and with their peers.

    python -m normkernels.bench              measure for 8 minutes; run again to continue
    python -m normkernels.bench --steps      measure whole training steps; needs labkit
    python -m normkernels.bench --dry-run    test the code at tiny sizes, without a GPU

share = bytes that must move / time / a copying kernel's bandwidth, same bytes, same process

operations.py  the operations and their bytes             measure.py  measurements at one size
providers.py   the implementations                        device.py   the GPU and its clocks
plan.py        the sizes and their order                  results.py  the file of results
check.py       comparison with the formula                steps.py    models' training steps

Times and their spread are from `triton.testing.do_bench`. `triton.testing.perf_report` is not
suitable: it measures one provider after the other, loses everything when it is stopped, and needs
pandas and matplotlib, while torch and triton are enough for the rest. `labkit show FILE.json` draws
and tabulates the file instead.
"""
