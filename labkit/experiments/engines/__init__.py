"""Engines: what trains the runs that a store lacks. One base class, one file an engine.

base.py       Engine: hands out tasks, keeps failures to the end; make_engine
task.py       train a task: what every engine does in the end
locks.py      one trainer a run, also when two sweeps share a store
limits.py     seconds and bytes that a run may take
serial.py     in this process, one after another
processes.py  one worker process a core, the default
on_ray.py     Ray tasks, on a cluster
"""

from labkit.experiments.engines.base import ENGINES, Engine, make_engine

__all__ = ["ENGINES", "Engine", "make_engine"]
