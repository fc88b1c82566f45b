"""What a run returns, in the shape the caller asked for it: any nesting of lists, tuples, dicts and records."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow.graph import Graph
from aioflow.node import Operation, Tensor

Build = Callable[[Sequence[Any]], Any]
"""From the fetched values, one per element, to what the caller gets."""


class Composite(NamedTuple):
    """How a value made of several tensors is fetched and fed."""

    split: Callable[[Any], Sequence[Tensor]]
    join: Callable[[Sequence[Any]], Any]
    feed: Callable[[Any, Any], Sequence[Any]]


COMPOSITES: Final[dict[type, Composite]] = {}
"""Classes of values made of several tensors, as IndexedSlices: filled by their modules at import."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fetches:
    """A parsed fetch structure: distinct elements, and the way back."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    build: Build


def parse_fetches(graph: Graph, fetches: Any) -> Fetches:
    """Take a fetch structure apart.

    Raises:
        TypeError: something in it is no tensor, operation or name of one; None too.
        ValueError: a name is not in the graph, an element belongs to another graph or may not be fetched.
    """
    elements: dict[Tensor | Operation, int] = {}
    build = _parse(graph, fetches, elements)
    tensors = tuple([element for element in elements if isinstance(element, Tensor)])
    operations = tuple([element for element in elements if isinstance(element, Operation)])
    places = {tensor: index for index, tensor in enumerate(tensors)}
    order = [places.get(element, -1) if isinstance(element, Tensor) else -1 for element in elements]

    def assemble(values: Sequence[Any]) -> Any:
        return build([None if place < 0 else values[place] for place in order])

    return Fetches(tensors, operations, _direct(fetches, tensors, operations) or assemble)


def _direct(fetches: Any, tensors: Sequence[Tensor], operations: Sequence[Operation]) -> Build | None:
    """A shorter way for the common calls: one tensor, one operation."""
    if isinstance(fetches, (Tensor, str)) and len(tensors) == 1:
        return lambda values: values[0]
    if isinstance(fetches, (Operation, str)) and len(operations) == 1:
        return lambda values: None
    return None


def _parse(graph: Graph, fetches: Any, elements: dict[Tensor | Operation, int]) -> Build:
    if isinstance(fetches, (list, tuple)):
        parts = [_parse(graph, item, elements) for item in fetches]
        make = _maker(fetches)
        return lambda values: make([part(values) for part in parts])
    if isinstance(fetches, Mapping):
        named = {key: _parse(graph, item, elements) for key, item in fetches.items()}
        kind = type(fetches) if type(fetches) is not dict else dict
        return lambda values: kind((key, part(values)) for key, part in named.items())  # type: ignore[call-arg]
    if dataclasses.is_dataclass(fetches) and not isinstance(fetches, type) and type(fetches) not in COMPOSITES:
        fields = {f.name: _parse(graph, getattr(fetches, f.name), elements) for f in dataclasses.fields(fetches)}
        record = type(fetches)
        return lambda values: record(**{name: part(values) for name, part in fields.items()})
    composite = COMPOSITES.get(type(fetches))
    if composite is not None:
        parts = [_parse(graph, tensor, elements) for tensor in composite.split(fetches)]
        return lambda values: composite.join([part(values) for part in parts])
    place = elements.setdefault(fetchable(graph, fetches), len(elements))
    return lambda values: values[place]


def _maker(fetches: Any) -> Callable[[list[Any]], Any]:
    kind = type(fetches)
    if hasattr(kind, "_make"):
        make: Callable[[list[Any]], Any] = kind._make
        return make
    return kind if kind is not list else list


def fetchable(graph: Graph, value: Any) -> Tensor | Operation:
    """The element that `value` names. TypeError or ValueError, with the mend, if it cannot be fetched."""
    if value is None:
        raise TypeError("a fetch is None; fetch a tensor, an operation, or a list of them")
    try:
        element = graph.as_graph_element(value)
    except TypeError as error:
        raise TypeError(f"cannot fetch {value!r}: {error}") from None
    except (KeyError, ValueError) as error:
        raise ValueError(f"cannot fetch {value!r}: {error.args[0]}") from None
    if not graph.is_fetchable(element):
        raise ValueError(f"{element!r} may not be fetched")
    return element
