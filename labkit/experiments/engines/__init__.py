"""Engines: what trains the runs that a store lacks. One protocol, one file an engine.

base.py       Engine, the protocol; Task, runs that train together
task.py       train a task and store its records: what every engine does in the end
serial.py     in this process, one after another
processes.py  one worker process a core, the default
worker.py     such a process
"""

from labkit.experiments.engines.base import ENGINES, Engine, Task, make_engine

__all__ = ["ENGINES", "Engine", "Task", "make_engine"]
