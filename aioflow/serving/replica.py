"""Where the replicas of a model are: each one is a session of a cluster."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from aioflow import errors
from aioflow.graph.operation import items_of
from aioflow.tensors.recursion import safe_repr

if TYPE_CHECKING:
    from aioflow.net.client.client import Address
    from aioflow.net.cluster import ClusterSpec

ReplicaState: TypeAlias = Literal["loading", "available", "lost"]
"""A replica is loaded and warmed up, then available. A lost one is loaded again as soon as its tasks are back."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replica:
    """A place for a copy of a model in a cluster.

        af.serving.Replica("ws://b:2222", ["/job:worker/task:1"])
        af.serving.Replica("ws://b:2222", ["/job:worker/task:1", "/job:worker/task:2"], keep_devices=True)

    Attributes:
        target: the master of its session, as `af.Session` takes it: best one of its own tasks, so that no other task
            can take the replica down.
        tasks: the tasks that its operations may lie on; by default all tasks of the cluster.
        keep_devices: whether its operations lie on the devices that they had when the model was saved, so that one
            model is spread over several tasks.

    Examples:
        >>> replica = af.serving.Replica("ws://b:2222", ["/job:worker/task:1"])
        >>> replica.name
        '/job:worker/task:1'
    """

    target: "str | Address"
    tasks: Sequence[str] = ()
    keep_devices: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(items_of("tasks", self.tasks)))

    @property
    def name(self) -> str:
        """The names of its tasks, or the address of its master if it names none."""
        address = getattr(self.target, "address", self.target)
        return ",".join(self.tasks) or str(address)

    @staticmethod
    def on_each(
        cluster: "ClusterSpec", job: str = "worker", count: int | None = None, scheme: str = "ws"
    ) -> list["Replica"]:
        """Return a replica for each task of a job, or for the first `count`; each task is the master of its own.

        InvalidArgumentError if the job has fewer tasks.
        """
        tasks = cluster.task_indices(job)
        if count is not None and not 0 < count <= len(tasks):
            raise errors.InvalidArgumentError(
                f"job {job!r} has {len(tasks)} tasks, so there cannot be {count} replicas"
            )
        return [
            Replica(f"{scheme}://{cluster.task_address(job, index)}", [f"/job:{job}/task:{index}"])
            for index in tasks[:count]
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of a replica of a version.

    Attributes:
        name: the name of the replica.
        state: its state.
        rows: the rows of the requests that it runs, or that wait for it.
        losses: how often it was lost.
        error: why it is lost.

    Examples:
        >>> status = af.serving.ReplicaStatus("/job:worker/task:0", "available", rows=3)
        >>> status.name, status.losses
        ('/job:worker/task:0', 0)
    """

    name: str
    state: ReplicaState
    rows: int = 0
    losses: int = 0
    error: errors.OpError | None = None


def checked_replicas(replicas: Sequence[Replica]) -> list[Replica]:
    """Return the replicas. TypeError if they are something else, ValueError if there are none or two have one name."""
    found = list(items_of("replicas", replicas))
    if not all(isinstance(each, Replica) for each in found):
        raise TypeError(f"replicas are a list of af.serving.Replica, not {safe_repr(replicas)}")
    names = [each.name for each in found]
    if not found or len({*names}) < len(names):
        raise ValueError(f"replicas are at least one, each in a place of its own, not {', '.join(names) or 'none'}")
    return found
