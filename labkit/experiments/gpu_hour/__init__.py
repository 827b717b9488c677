"""An hour on a GPU, in slices: what only a GPU can say of this book, the most telling first.

    make gpu-pack                       here: build/gpu, a folder that needs no network
    python3 gpu_hour.py                 there: a slice of nine minutes; call again, and it goes on
    labkit gpu take gpu-hour-….tar.gz   here: what came back becomes part of data

slices.py    in which order, for how long; what was done, in a file that is whole at any moment
commands.py  what each step runs: other programs, each with an end
measure.py   which device is this, does it compute what is recorded, 64 replicates against one
training.py  one arm of a rung, as batched models that go on where they were stopped

Each program that computes is a process of its own, and the one over them touches no device: one
that is lost, or a check that hangs, costs its step its time and nothing else.
"""
