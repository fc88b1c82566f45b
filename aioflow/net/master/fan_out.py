"""The tree by which a master reaches many tasks: it asks a few of them, and each asks the tasks below it.

A task handles the messages to its tasks one after the other. So the time in which a master reaches all tasks by itself
grows with their number, and by a tree with the logarithm of their number.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

MOST: Final = 12
"""A master asks so many tasks at most by itself. With more, there is a tree."""
WIDTH: Final = 8
"""So many tasks are below a task at most."""


class FanOut(NamedTuple):
    """The tree over some tasks.

    Attributes:
        asked: the tasks that the master asks.
        below: by task, the tasks that it asks; tasks that ask none are left out.
    """

    asked: Sequence[str]
    below: Mapping[str, Sequence[str]]


def fan_out(tasks: Sequence[str]) -> FanOut:
    """The tree over these tasks. Tasks that follow each other, such as those of one host, are close to each other."""
    if len(tasks) <= MOST:
        return FanOut(tasks, {})
    below = dict(_below(tasks))
    return FanOut([group[0] for group in _groups(tasks)], below)


def _below(tasks: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each task that asks others, with those."""
    for first, *others in _groups(tasks):
        if others:
            yield first, [group[0] for group in _groups(others)]
            yield from _below(others)


def _groups(tasks: Sequence[str]) -> list[Sequence[str]]:
    """The tasks in at most `WIDTH` groups of about one size."""
    count = min(len(tasks), WIDTH)
    bounds = [len(tasks) * index // count for index in range(count + 1)]
    return [tasks[begin:end] for begin, end in itertools.pairwise(bounds)]
