"""Encodes the partitions of a plan that a master registers with a worker, as one message, and decodes them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgpack

from aioflow import errors
from aioflow.graph.effects import has_lasting_effect, takes_elements, takes_or_puts
from aioflow.graph.operation import Attrs
from aioflow.net.wire.graph_updates import MOST
from aioflow.net.wire.worker_verbs import RegisterGraph
from aioflow.net.worker.remote_rendezvous import task_of
from aioflow.plan.partition import Part
from aioflow.plan.passes.flow import Node
from aioflow.plan.serialize import flow_from_plain, flow_to_plain
from aioflow.rendezvous import PUSHED
from aioflow.tensors.dtypes import Array
from aioflow.tensors.plain_data import summarise, unpack

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


def registration(
    session: str, number: int, share: Share, counted: Sequence[str], takes: bool, below: Sequence[str] = ()
) -> RegisterGraph:
    """The request that registers a share of a plan, which takes elements on some task or does not.

    InvalidArgumentError if something in it cannot leave the process.
    """
    arrays: list[Array] = []
    parts = []
    for part in share.parts:
        try:
            flow, beside = flow_to_plain(part.flow)
        except ValueError as error:
            raise errors.InvalidArgumentError(str(error)) from None
        parts.append(
            {"device": part.device, "flow": flow, "feeds": part.feeds, "fetches": part.fetches, "arrays": len(beside)}
        )
        arrays += beside
    graph = msgpack.packb({"parts": parts, "counted": list(counted)})
    constants = {str(index): array for index, array in enumerate(arrays)}
    return RegisterGraph(session, number, graph, constants, takes, tuple(below))


def parts_of(message: RegisterGraph) -> tuple[list[Part], list[str]]:
    """The parts that a message registers, and the operations that ask how often they ran. ValueError if malformed."""
    if len(message.graph) > MOST:
        raise ValueError(f"malformed graph: {len(message.graph)} bytes are more than {MOST}")
    try:
        data = unpack(message.graph)
        arrays = _arrays(message.constants)
        parts = [_part(fields, arrays) for fields in data["parts"]]
        counted = list(data["counted"])
    except KeyError as error:
        raise ValueError(f"malformed graph: {error} is missing") from None
    except StopIteration:
        raise ValueError("malformed graph: arrays are missing") from None
    except TypeError as error:
        raise ValueError(f"malformed graph: {error}") from None
    if not all(isinstance(name, str) for name in counted):
        raise ValueError("malformed graph: names of operations are text")
    _check_numbers("fetches", [index for part in parts for index in part.fetches], once=True)
    _check_numbers("feeds", [index for part in parts for index in part.feeds], once=False)
    if len({part.device for part in parts}) < len(parts):
        raise ValueError("malformed graph: a device has one part")
    return parts, counted


def shares_of(parts: Iterable[Part]) -> dict[str, Share]:
    """Each task's share of the parts of a plan."""
    by_task: dict[str, list[Part]] = {}
    for part in parts:
        by_task.setdefault(task_of(part.device), []).append(part)
    return {task: share_of(of_task) for task, of_task in by_task.items()}


def _check_numbers(what: str, numbers: Sequence[Any], *, once: bool) -> None:
    """ValueError unless they are all from 0 on, each at least once, or each just `once`."""
    are_numbers = all(type(number) is int for number in numbers)
    if not are_numbers or sorted(numbers if once else set(numbers)) != list(range(len(set(numbers)))):
        raise ValueError(f"malformed graph: its {what} are not numbered from 0 on: {summarise(tuple(numbers))}")


def _arrays(constants: Mapping[str, Array]) -> Any:
    return iter([constants[str(index)] for index in range(len(constants))])


def _part(fields: Any, arrays: Any) -> Part:
    if not isinstance(fields["device"], str):
        raise ValueError(f"malformed graph: {summarise(fields['device'])} is not a device")
    flow = flow_from_plain(fields["flow"], [next(arrays) for _ in range(fields["arrays"])])
    feeds, fetches = tuple(fields["feeds"]), tuple(fields["fetches"])
    if len(feeds) != len(flow.feeds) or len(fetches) != len(flow.fetches):
        raise ValueError("malformed graph: a part has other feeds or fetches than its flow")
    return Part(fields["device"], flow, feeds, fetches)
