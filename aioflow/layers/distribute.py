"""`af.distribute`: strategies, by which `compile` and `fit` train a model on several devices or tasks.

Each replica trains on its share of every batch, on a device of its own. The loss, and so the gradients, are those of
the whole batch: a fit on several devices gives the numbers of the fit on one, but for the order of sums; only
asynchronous training by parameter servers differs. Layers see only the share: batch normalization takes the statistics
of shares, and moves its averages by those of the first one.

    strategy = af.distribute.MirroredStrategy(["/device:GPU:0", "/device:GPU:1"])
    model.compile("adam", "mse", strategy=strategy)
    await model.fit(x, y)

The devices are those of the session. For a cluster give the session of one of its tasks, by `session=` or `async with`.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.operation import Operation
from aioflow.lazy import Face
from aioflow.library.variables import Variable
from aioflow.net.cluster import ClusterSpec
from aioflow.tensors.recursion import safe_repr
from aioflow.train.device_setter import PsStrategy, replica_device_setter


class Strategy:
    """The devices of replicas, and the place of weights.

    Attributes:
        devices: the device of each replica, the first one for evaluation and prediction too.
        mirrored: whether each device has weights of its own, kept equal by all-reduced gradients.
        asynchronous: whether each device takes batches of its own, and trains without waiting for the others.

    Examples:
        >>> strategy = af.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        >>> isinstance(strategy, af.distribute.Strategy)
        True
    """

    mirrored = True
    asynchronous = False

    def __init__(self, devices: Iterable[str]) -> None:
        """ValueError for no devices, repeated ones, or a malformed name."""
        self.devices: Final = [str(DeviceSpec.from_string(device)) for device in devices]
        if not self.devices or len(set(self.devices)) != len(self.devices):
            raise ValueError(f"a strategy has at least one device, and each once, not {safe_repr(self.devices)}")

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas that make a step."""
        return 1 if self.asynchronous else len(self.devices)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Put weights of layers that are called inside in their place, and operations on the first device.

        `fit` composes a model in this scope if it was not called before.
        """
        with get_default_graph().device(self.placement()):
            yield

    def placement(self) -> str | Callable[[Operation], str]:
        """The device of an operation in `scope()`, or a function that chooses it."""
        return self.devices[0]

    def check(self, weights: Iterable[Variable]) -> None:
        """Raise ValueError if a weight is not in a place from which the strategy can train it."""


class MirroredStrategy(Strategy):
    """Each device has weights of its own, and a ring adds up the gradients: see `af.train.all_reduce_gradients`.

    Examples:
        >>> strategy = af.distribute.MirroredStrategy(["/device:CPU:0", "/device:CPU:1"])
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse", strategy=strategy)
    """


class MultiWorkerMirroredStrategy(Strategy):
    """A mirrored strategy over the CPUs of the tasks of a cluster; one program trains on all of them.

    Args:
        cluster: the cluster.
        job: the job whose tasks train.

    Examples:
        >>> cluster = {"worker": ["localhost:2222", "localhost:2223"]}
        >>> af.distribute.MultiWorkerMirroredStrategy(cluster).num_replicas_in_sync
        2
    """

    def __init__(self, cluster: ClusterSpec | Mapping[str, Any], job: str = "worker") -> None:
        """ValueError for a job without tasks."""
        super().__init__(_tasks(cluster, job))


class ParameterServerStrategy(Strategy):
    """The weights are on parameter servers, and workers read them in each step. One program trains on all workers.

    In synchronous training each worker has a share of every batch, and the servers add up the gradients. In
    asynchronous training each worker takes a whole batch as soon as it is free, and applies its gradient at once: a
    slow worker holds up no other one, a gradient may be of weights that others have changed meanwhile, and the numbers
    of a fit are not the same each time. Callbacks are told of one batch at a time, in the order of their ends.

    Layers must be called for the first time in `scope()`, or by `fit`. For a program on each worker, with a bound on
    how stale gradients may be or with backup workers, see `af.train.AsyncReplicasOptimizer` and
    `af.train.SyncReplicasOptimizer`.

    Args:
        cluster: the cluster.
        ps_strategy: (operation) -> number of its parameter server; round-robin by default.
        ps_job: the job of the parameter servers.
        worker_job: the job of the workers.
        asynchronous: whether the training is asynchronous.

    Examples:
        >>> cluster = {"ps": ["localhost:2221"], "worker": ["localhost:2222", "localhost:2223"]}
        >>> af.distribute.ParameterServerStrategy(cluster).num_replicas_in_sync
        2
    """

    mirrored = False

    def __init__(
        self, cluster: ClusterSpec | Mapping[str, Any], ps_strategy: PsStrategy | None = None, ps_job: str = "ps",
        worker_job: str = "worker", asynchronous: bool = False,
    ) -> None:  # fmt: skip
        """ValueError for a job without tasks."""
        super().__init__(_tasks(cluster, worker_job))
        self.asynchronous = asynchronous
        self._ps_job: Final = ps_job
        self._setter: Final = replica_device_setter(
            len(_tasks(cluster, ps_job)), f"/job:{ps_job}", self.devices[0], ps_strategy=ps_strategy
        )

    def placement(self) -> str | Callable[[Operation], str]:
        """Weights are on parameter servers, and all else on the first worker."""
        return self._setter or self.devices[0]

    def check(self, weights: Iterable[Variable]) -> None:
        """Raise ValueError for a weight that is not on a parameter server."""
        for weight in weights:
            if DeviceSpec.from_string(weight.device).job != self._ps_job:
                raise ValueError(
                    f"the weight {weight.op.name!r} is on {weight.device or 'no device'}, not on /job:{self._ps_job}: "
                    "call its layer for the first time in `with strategy.scope():`, or by `fit`"
                )


def checked_strategy(given: Any) -> Strategy | None:
    """The strategy, or None. TypeError for anything else."""
    if given is not None and not isinstance(given, Strategy):
        raise TypeError(f"a strategy is one of af.distribute, not {safe_repr(given)}")
    return given


def _tasks(cluster: ClusterSpec | Mapping[str, Any], job: str) -> list[str]:
    spec = ClusterSpec(cluster)
    if job not in spec.jobs:
        raise ValueError(f"the cluster has no job {job!r}: its jobs are {', '.join(spec.jobs)}")
    return [f"/job:{job}/task:{task}" for task in spec.task_indices(job)]


__all__ = ["MirroredStrategy", "MultiWorkerMirroredStrategy", "ParameterServerStrategy", "Strategy"]
Face(__name__, {__name__: " ".join(__all__)})
