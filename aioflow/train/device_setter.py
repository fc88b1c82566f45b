"""Device functions for `af.device` that put variables on parameter servers and the rest on workers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.operation import Operation
from aioflow.net.cluster import ClusterSpec

PsStrategy = Callable[[Operation], int]
"""(operation) -> the number of its parameter server."""
_PS_OPS: Final = ("variable", "mutable_hash_table", "mutable_dense_hash_table")


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: ClusterSpec | Mapping[str, Any] | None = None,
    ps_ops: Iterable[str] | None = None,
    ps_strategy: PsStrategy | None = None,
) -> Callable[[Operation], str] | None:
    """Return a device function that puts variables on parameter servers, and everything else on a worker.

        with af.device(af.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:1")):
            ...

    Reads and updates of a variable are on the variable's device. Inner device scopes refine the choice.

    Args:
        ps_tasks: number of parameter servers. Without any, the result is None, which changes no device.
        ps_device: the job of the parameter servers.
        worker_device: the device of the worker.
        merge_devices: for compatibility: must be True.
        cluster: tells the number of parameter servers.
        ps_ops: the ops that go to parameter servers; handles of variables and of tables that change by default.
        ps_strategy: (operation) -> number of its parameter server; round-robin by default.

    Raises:
        TypeError: `ps_strategy` cannot be called.
        ValueError: a device is malformed, or `merge_devices` is False.

    Examples:
        >>> with af.device(af.train.replica_device_setter(ps_tasks=2)):
        ...     weights, total = af.Variable(1.0), af.add(1, 2)
        >>> weights.device, total.device
        ('/job:ps/task:0', '/job:worker')
    """
    if not merge_devices:
        raise ValueError("devices are always merged: merge_devices=False is not supported")
    ps, worker = DeviceSpec.from_string(ps_device), DeviceSpec.from_string(worker_device)
    indices = list(range(ps_tasks)) if cluster is None else _tasks(ClusterSpec(cluster), ps.job)
    if not indices:
        return None
    strategy = RoundRobinStrategy(len(indices)) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError(f"ps_strategy must be a function of an operation, not {strategy!r}")
    served = frozenset(_PS_OPS if ps_ops is None else ps_ops)

    def device(operation: Operation) -> str:
        asked = DeviceSpec.from_string(operation.device)
        if operation.type not in served:
            return str(worker.make_merged_spec(asked))
        if asked.job is not None and asked.job != ps.job:
            return str(ps.make_merged_spec(asked))
        task = DeviceSpec(task=indices[strategy(operation)])
        return str(ps.make_merged_spec(task).make_merged_spec(asked))

    return device


def _tasks(cluster: ClusterSpec, job: str | None) -> list[int]:
    return cluster.task_indices(job) if job in cluster.jobs else []


class RoundRobinStrategy:
    """Round-robin assignment to parameter servers."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks: Final = num_tasks
        self._next = 0

    def __call__(self, op: Operation) -> int:
        """Return the next one."""
        task, self._next = self._next, (self._next + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """Assigns each operation to the parameter server with the least load, the first one among equals.

    Args:
        num_tasks: number of parameter servers.
        load_fn: (operation) -> its load, such as `byte_size_load_fn`.

    Examples:
        >>> spread = af.train.GreedyLoadBalancingStrategy(2, af.train.byte_size_load_fn)
        >>> with af.device(af.train.replica_device_setter(ps_tasks=2, ps_strategy=spread)):
        ...     weights = [af.Variable(af.zeros([size])) for size in (1000, 10, 10)]
        >>> [each.device for each in weights]
        ['/job:ps/task:0', '/job:ps/task:1', '/job:ps/task:1']
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        self._loads: Final = [0.0] * num_tasks
        self._load_fn: Final = load_fn

    def __call__(self, op: Operation) -> int:
        """Return the number of the least loaded one, and add the operation's load to it."""
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> int:
    """Return the bytes of a variable; ValueError if its shape is unknown.

    Examples:
        >>> af.train.byte_size_load_fn(af.Variable(af.zeros([10, 10])).op)
        400
    """
    spec = op.outputs[0].spec
    items = getattr(spec, "items", (spec,))
    if not all(item.shape.is_fully_defined() for item in items):
        raise ValueError(f"the shape of {op.name!r} is not known, and so not how many bytes it takes")
    return sum((item.shape.num_elements() or 0) * item.dtype.size for item in items)
