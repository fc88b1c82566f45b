"""The tasks of a cluster."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class TaskLink:
    """A connection that a task has dialled: bytes since it was made, and the seconds of a round trip."""

    task: str
    sent: int
    received: int
    round_trip: float | None
    interrupted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """A task of a cluster.

    Attributes:
        name: its name.
        address: where it listens.
        state: "up", "lost", or "unknown" before the first answer.
        incarnation: the number of the process that answers there, in hex; another one after a restart.
        since: the time at which it came into this state.
        steps: the steps, or shares of steps, that it has begun.
        running: the steps that run.
        memory: the bytes alive on its devices, where they are tracked.
        round_trip: the seconds of a request of this monitor.
        links: the connections that it has dialled.
        why: the reason why it is lost.
    """

    name: str
    address: str
    state: str
    incarnation: str
    since: float
    steps: int = 0
    running: int = 0
    memory: int = 0
    round_trip: float | None = None
    links: tuple[TaskLink, ...] = ()
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """The tasks of a cluster at one moment."""

    time: float
    tasks: tuple[Task, ...]
