"""Splits a plan into the shares of tasks, and finds what a share needs of its worker and of other tasks."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from aioflow.graph.device_spec import task_of
from aioflow.graph.effects import has_lasting_effect, takes_elements, takes_or_puts
from aioflow.graph.operation import Attrs
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Node
from aioflow.rendezvous import PUSHED

Senders = Mapping[str, Mapping[str, int]]
"""By tasks, devices that send something unasked, with their incarnations."""


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """One task's share of a plan.

    Attributes:
        parts: one for each of its devices, with feeds and fetches numbered within the share.
        feeds: which of the call's feeds it is given, in that order.
        fetches: which of the call's fetches it gives.
    """

    parts: tuple[Part, ...]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]

    @property
    def lasts(self) -> bool:
        """Whether a step lasts on the task after the share has run."""
        return lasts(self.parts)

    @property
    def holds(self) -> bool:
        """Whether it uses state that outlives a step, such as variables and queues."""
        return any(node.definition.handle for node in _nodes(self.parts))

    @property
    def takes(self) -> bool:
        """Whether it may take elements that go back if the values of the step are lost."""
        return any(takes_elements(node.definition) for node in _nodes(self.parts))


def _nodes(parts: Iterable[Part]) -> list[Node]:
    """The nodes of these parts, also those inside of branches and loops."""
    return [each for part in parts for node in part.flow.nodes for each in node.everything()]


def lasting(parts: Iterable[Part]) -> tuple[str, ...]:
    """The names of the operations in these parts whose effects outlive a step and cannot be undone."""
    return tuple([node.name for node in _nodes(parts) if has_lasting_effect(node.definition, node.input_specs)])


def handed_over(parts: Iterable[Part]) -> tuple[str, ...]:
    """The names of the operations in these parts with takes and puts that a step can give back."""
    return tuple([node.name for node in _nodes(parts) if takes_or_puts(node.definition)])


def lasts(parts: Iterable[Part]) -> bool:
    """Whether a step lasts on its task after these parts have run: other tasks get values of it, or may undo it."""
    return _has_lossy(parts) or bool(_sent(parts))


def pushed_to(parts: Iterable[Part]) -> tuple[str, ...] | None:
    """The tasks to which these parts of one task push values; None if a task asks for some, or may undo the step."""
    sent = _sent(parts)
    if _has_lossy(parts) or not all(attrs["edge"].startswith(PUSHED) for attrs in sent):
        return None
    return tuple(dict.fromkeys(task_of(attrs["target"]) for attrs in sent))


def _has_lossy(parts: Iterable[Part]) -> bool:
    return any(node.definition.name == "lossy_encode_top_k" for part in parts for node in part.flow.nodes)


def _sent(parts: Iterable[Part]) -> list[Attrs]:
    """The attributes of the sends to other tasks."""
    return [
        node.attrs
        for part in parts
        for node in part.flow.nodes
        if node.definition.name == "send" and task_of(node.attrs["target"]) != task_of(part.device)
    ]


def senders_to(parts: Sequence[Part]) -> Senders:
    """Return the devices that push values to these partitions of one task."""
    found: dict[str, dict[str, int]] = {}
    for part in parts:
        for node in part.flow.nodes:
            if node.definition.name == "recv" and node.attrs["edge"].startswith(PUSHED):
                device = node.attrs["source"]
                if task_of(device) != task_of(part.device):
                    found.setdefault(task_of(device), {})[device] = node.attrs["incarnation"]
    return found


def share_of(parts: Sequence[Part]) -> Share:
    """The share that these parts of a plan make up."""
    feeds = tuple(sorted({index for part in parts for index in part.feeds}))
    fetches = tuple(sorted({index for part in parts for index in part.fetches}))
    numbered = [
        dataclasses.replace(
            part,
            feeds=tuple([feeds.index(index) for index in part.feeds]),
            fetches=tuple([fetches.index(index) for index in part.fetches]),
        )
        for part in parts
    ]
    return Share(tuple(numbered), feeds, fetches)


def shares_of(parts: Iterable[Part]) -> dict[str, Share]:
    """Each task's share of the parts of a plan."""
    by_task: dict[str, list[Part]] = {}
    for part in parts:
        by_task.setdefault(task_of(part.device), []).append(part)
    return {task: share_of(of_task) for task, of_task in by_task.items()}
