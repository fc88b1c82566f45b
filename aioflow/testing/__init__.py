"""Tools to test asynchronous code without sleeping, without luck and without leaving anything behind.

Nothing here needs pytest: every tool is a plain class, function or context manager.
"""

from aioflow.testing.chaos import Chaos, Mishap
from aioflow.testing.faults import Fault, faulty_kernel
from aioflow.testing.gates import Gate
from aioflow.testing.gradient_checker import check_gradients
from aioflow.testing.hosts import current_host, on_host
from aioflow.testing.leaks import LeakError, no_leaks, no_pending_tasks
from aioflow.testing.loop import DeadlockError, VirtualTimeLoop
from aioflow.testing.simulated_cluster import SimulatedCluster, cluster

__all__ = [
    "Chaos", "DeadlockError", "Fault", "Gate", "LeakError", "Mishap", "SimulatedCluster", "VirtualTimeLoop",
    "check_gradients", "cluster", "current_host", "faulty_kernel", "no_leaks", "no_pending_tasks", "on_host",
]  # fmt: skip
