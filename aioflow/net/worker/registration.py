"""Encodes the shares of a plan that a master registers with workers, one message for each host, and decodes them.

The tasks of one host often have the same arrays in their shares. So a host gets each array once: one of its tasks gets
the message for all of them, and passes their parts on.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgpack

from aioflow import errors
from aioflow.net.wire.graph_updates import MOST
from aioflow.net.wire.worker_verbs import RegisterGraph
from aioflow.net.worker.plan_shares import Share
from aioflow.plan.partition import Part
from aioflow.plan.serialize import flow_from_plain, flow_to_plain
from aioflow.tensors.dtypes import Array
from aioflow.tensors.plain_data import summarise, unpack


@dataclasses.dataclass(frozen=True, slots=True)
class Registration:
    """A registered share of a plan.

    Attributes:
        parts: its parts.
        counted: the operations that ask how often they ran.
        below: the tasks that its task asks to run their shares.
    """

    parts: Sequence[Part]
    counted: Sequence[str]
    below: Sequence[str] = ()


class _Arrays:
    """The arrays of one message, each once."""

    def __init__(self) -> None:
        self.found: Final[list[Array]] = []
        self._places: Final[dict[int, int]] = {}

    def add(self, arrays: Iterable[Array]) -> list[int]:
        """The places of these arrays in the message."""
        return [self._place(array) for array in arrays]

    def _place(self, array: Array) -> int:
        place = self._places.setdefault(id(array), len(self.found))
        if place == len(self.found):
            self.found.append(array)
        return place


def registration(
    session: str, number: int, shares: Mapping[str, Share], counted: Sequence[str], takes: bool,
    below: Mapping[str, Sequence[str]],
) -> RegisterGraph:  # fmt: skip
    """The request that registers shares of a plan with the tasks of one host.

    Args:
        session: the session.
        number: the number of the plan.
        shares: the shares by task.
        counted: the operations that ask how often they ran.
        takes: whether the plan takes elements on some task.
        below: by task, the tasks that it asks to run their shares.

    Raises:
        InvalidArgumentError: something in a share cannot leave the process.
    """
    arrays = _Arrays()
    graphs = {
        task: msgpack.packb(
            {
                "parts": [_plain(part, arrays) for part in share.parts],
                "counted": list(counted),
                "below": list(below.get(task, ())),
            }
        )
        for task, share in shares.items()
    }
    return RegisterGraph(session, number, graphs, _named(enumerate(arrays.found)), takes)


def _plain(part: Part, arrays: _Arrays) -> dict[str, Any]:
    try:
        flow, beside = flow_to_plain(part.flow)
    except ValueError as error:
        raise errors.InvalidArgumentError(str(error)) from None
    return {
        "device": part.device, "flow": flow, "feeds": part.feeds, "fetches": part.fetches,
        "arrays": arrays.add(beside),
    }  # fmt: skip


def passed_on(message: RegisterGraph, task: str) -> RegisterGraph:
    """The part of the message that is for that task. ValueError if it is malformed."""
    data = _unpacked(message.graphs[task])
    try:
        places = {place for part in data["parts"] for place in part["arrays"]}
        constants = _named((place, message.constants[str(place)]) for place in sorted(places))
    except KeyError as error:
        raise ValueError(f"malformed graph: {error} is missing") from None
    except TypeError as error:
        raise ValueError(f"malformed graph: {error}") from None
    return dataclasses.replace(message, graphs={task: message.graphs[task]}, constants=constants)


def _named(arrays: Iterable[tuple[int, Array]]) -> dict[str, Array]:
    return {str(place): array for place, array in arrays}


def registered(graph: bytes, constants: Mapping[str, Array]) -> Registration:
    """The share that a message registers. ValueError if it is malformed."""
    data = _unpacked(graph)
    try:
        parts = [_part(fields, constants) for fields in data["parts"]]
        counted, below = list(data["counted"]), list(data["below"])
    except KeyError as error:
        raise ValueError(f"malformed graph: {error} is missing") from None
    except TypeError as error:
        raise ValueError(f"malformed graph: {error}") from None
    if not all(isinstance(name, str) for name in (*counted, *below)):
        raise ValueError("malformed graph: names of operations and tasks are text")
    _check_numbers("fetches", [index for part in parts for index in part.fetches], once=True)
    _check_numbers("feeds", [index for part in parts for index in part.feeds], once=False)
    if len({part.device for part in parts}) < len(parts):
        raise ValueError("malformed graph: a device has one part")
    return Registration(parts, counted, below)


def _unpacked(graph: bytes) -> Any:
    if len(graph) > MOST:
        raise ValueError(f"malformed graph: {len(graph)} bytes are more than {MOST}")
    return unpack(graph)


def _check_numbers(what: str, numbers: Sequence[Any], *, once: bool) -> None:
    """ValueError unless they are all from 0 on, each at least once, or each just `once`."""
    are_numbers = all(type(number) is int for number in numbers)
    if not are_numbers or sorted(numbers if once else set(numbers)) != list(range(len(set(numbers)))):
        raise ValueError(f"malformed graph: its {what} are not numbered from 0 on: {summarise(tuple(numbers))}")


def _part(fields: Any, constants: Mapping[str, Array]) -> Part:
    if not isinstance(fields["device"], str):
        raise ValueError(f"malformed graph: {summarise(fields['device'])} is not a device")
    flow = flow_from_plain(fields["flow"], [constants[str(place)] for place in fields["arrays"]])
    feeds, fetches = tuple(fields["feeds"]), tuple(fields["fetches"])
    if len(feeds) != len(flow.feeds) or len(fetches) != len(flow.fetches):
        raise ValueError("malformed graph: a part has other feeds or fetches than its flow")
    return Part(fields["device"], flow, feeds, fetches)
