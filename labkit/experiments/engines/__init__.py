"""Engines: what trains the runs that a store lacks. One protocol, one file an engine.

base.py       Engine, the protocol; Task, runs that train together
task.py       train a task and store its records: what every engine does in the end
locks.py      one trainer a run, also when two sweeps share a store
limits.py     seconds and bytes that a run may take
waiting.py    the tasks of one call, and what became of them
serial.py     in this process, one after another
places.py     what the two below share: a thread for each place where tasks train
processes.py  one worker process a core, the default
on_ray.py     Ray tasks, on this machine or on a cluster
bench.py      a program: engines beside each other, `labkit bench engines`
"""

from labkit.experiments.engines.base import ENGINES, Engine, Task, make_engine

__all__ = ["ENGINES", "Engine", "Task", "make_engine"]
