"""Tools to test asynchronous code without sleeping, without luck and without leaving anything behind.

Nothing here needs pytest: every tool is a plain class, function or context manager.
"""

from aioflow.testing.faults import Fault, faulty_kernel
from aioflow.testing.gates import Gate
from aioflow.testing.gradient_checker import check_gradients
from aioflow.testing.leaks import LeakError, no_leaks, no_pending_tasks
from aioflow.testing.loop import DeadlockError, VirtualTimeLoop

__all__ = [
    "DeadlockError", "Fault", "Gate", "LeakError", "VirtualTimeLoop", "check_gradients", "faulty_kernel", "no_leaks",
    "no_pending_tasks",
]  # fmt: skip
