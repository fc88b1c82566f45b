"""What a process does at one moment, in numbers: its steps, its queues, its connections to other tasks."""

from collections.abc import Iterable
from typing import NamedTuple

from aioflow.queues import Queue
from aioflow.runtime.session_state import SessionState


class QueueUse(NamedTuple):
    """A queue at one moment.

    Attributes:
        name: its name.
        size: its elements.
        putting: those that wait to put.
        taking: those that wait to take.
    """

    name: str
    size: int
    putting: int
    taking: int


class Connection(NamedTuple):
    """A connection that a task has dialled.

    Attributes:
        task: the other task.
        sent: bytes of all sent frames, those in shared memory included.
        received: bytes of all received frames.
        round_trip: seconds from the last ping to its pong; negative before the first.
        interrupted: whether it is lost at present, and may come back.
    """

    task: str
    sent: int
    received: int
    round_trip: float
    interrupted: bool


class Activity(NamedTuple):
    """What a process does.

    Attributes:
        steps: the steps, or shares of steps, that have begun so far.
        progress: the units of programs that have ended so far.
        running: the steps that run.
        queues: its queues.
        connections: the connections that it has dialled.
    """

    steps: int
    progress: int
    running: int
    queues: tuple[QueueUse, ...]
    connections: tuple[Connection, ...] = ()


NO_ACTIVITY = Activity(0, 0, 0, ())


def activity_of(state: SessionState, connections: Iterable[Connection] = ()) -> Activity:
    """Return what the steps of a session, or of a task, do now."""
    queues = [queue_use(thing) for thing in state.resources.alive() if isinstance(thing, Queue)]
    return Activity(state.step_count, state.progress, len(state.steps), tuple(queues), tuple(connections))


def queue_use(queue: Queue) -> QueueUse:
    """Return how full a queue is, and who waits for it."""
    found = queue.statistics()
    return QueueUse(queue.name, found.size, found.putting, found.taking)
