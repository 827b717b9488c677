"""Engines: they train the runs that a store lacks. One base class, one file per engine.

base.py       Engine: distributes tasks, reports failures at the end; make_engine
task.py       train a task, the common part of all engines
locks.py      one trainer per run, even if two sweeps share a store
limits.py     limits on a run's seconds and bytes
serial.py     in this process, one after another
processes.py  one worker process per core, the default
on_ray.py     Ray tasks, on a cluster
"""

from labkit.experiments.engines.base import ENGINES, Engine, make_engine
