"""Tools for deterministic tests of asynchronous code, without sleeps and without leaks.

Nothing here needs pytest: every tool is a plain class, function or context manager. `loop` has virtual time, `gates`
and `faults` control interleavings and failures, `leaks` checks for leftovers, `simulated_cluster` runs a whole cluster
in one process, `fake_gpu` simulates GPUs. No other folder of the package imports this one.
"""

from typing import TYPE_CHECKING, Any

from aioflow.testing.faults import Fault, faulty_kernel
from aioflow.testing.gates import Gate
from aioflow.testing.gradient_checker import check_gradients
from aioflow.testing.hosts import current_host, on_host
from aioflow.testing.leaks import LeakError, no_leaks, no_pending_tasks
from aioflow.testing.loop import DeadlockError, VirtualTimeLoop

if TYPE_CHECKING:
    from aioflow.testing.chaos import Chaos, Mishap
    from aioflow.testing.simulated_cluster import SimulatedCluster, cluster


def __getattr__(name: str) -> Any:
    """Import the tools that need the network at their first use."""
    if name in ("Chaos", "Mishap"):
        from aioflow.testing import chaos

        return getattr(chaos, name)
    if name in ("SimulatedCluster", "cluster"):
        from aioflow.testing import simulated_cluster

        return getattr(simulated_cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Chaos", "DeadlockError", "Fault", "Gate", "LeakError", "Mishap", "SimulatedCluster", "VirtualTimeLoop",
    "check_gradients", "cluster", "current_host", "faulty_kernel", "no_leaks", "no_pending_tasks", "on_host",
]  # fmt: skip
