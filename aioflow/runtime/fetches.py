"""Parses fetches, and builds the result of a run in the same nesting of lists, tuples, dicts and records."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from aioflow.config import RunOptions
from aioflow.graph.composites import composite_of
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import ListSpec
from aioflow.tensors.recursion import DEEPEST
from aioflow.tracing import RunMetadata

if TYPE_CHECKING:
    from aioflow.library.ragged.tensor import RaggedTensor
    from aioflow.library.variables import Variable


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _NamedTuple(Protocol):
    @property
    def _fields(self) -> tuple[str, ...]: ...


class _Attrs(Protocol):
    __attrs_attrs__: ClassVar[Any]


K = TypeVar("K")
Record = TypeVar("Record", bound=_Dataclass | _NamedTuple | _Attrs)
"""Return the attributes of a record (a dataclass, an object of attrs), and the parameters that set them."""
Row = TypeVar("Row", list[Any], tuple[Any, ...], Sequence[Any])
Element: TypeAlias = "Tensor | Variable | IndexedSlices | SparseTensor | RaggedTensor | str"
"""A fetch with one value. The value of a name is None if it names an operation."""
Feeds: TypeAlias = Mapping[Any, Any] | None
Options: TypeAlias = RunOptions | None
Metadata: TypeAlias = RunMetadata | None

Build = Callable[[Sequence[Any]], Any]
"""(fetched values, one per element) -> the result of the run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fetches:
    """A parsed fetch structure: distinct elements, and the way back."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    build: Build


def parse_fetches(graph: Graph, fetches: Any) -> Fetches:
    """Take a fetch structure apart.

    Raises:
        TypeError: an item is not a tensor, an operation or the name of one; None is not, either.
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
    """A shorter way for the common calls: one tensor, a list or dict of different tensors, one operation.

    A list of tensors may end in operations, as the loss and the update of a step of training do.
    """
    if isinstance(fetches, (Tensor, str)) and len(tensors) == 1:
        return lambda values: values[0]
    if isinstance(fetches, (Operation, str)) and len(operations) == 1:
        return lambda values: None
    if type(fetches) in (list, tuple) and len(tensors) == len(fetches) and {*map(type, fetches)} == {Tensor}:
        return list if type(fetches) is list else tuple
    if type(fetches) is list and {*map(type, fetches)} <= {Tensor, Operation} and fetches == [*tensors, *operations]:
        nones = [None] * len(operations)
        return lambda values: [*values, *nones]
    if type(fetches) is dict and len(tensors) == len(fetches) and {*map(type, fetches.values())} == {Tensor}:
        names = tuple(fetches)
        return lambda values: dict(zip(names, values, strict=True))
    return None


def _parse(graph: Graph, fetches: Any, elements: dict[Tensor | Operation, int], depth: int = 0) -> Build:
    if depth > DEEPEST:
        raise ValueError(f"fetches are nested more than {DEEPEST} deep, or contain themselves")
    composite = composite_of(fetches)
    if composite is not None:
        parts = [_parse(graph, tensor, elements, depth + 1) for tensor in composite.tensors(fetches)]
        return lambda values: composite.join(fetches, [part(values) for part in parts])
    if isinstance(fetches, (list, tuple)):
        parts = [_parse(graph, item, elements, depth + 1) for item in fetches]
        make = getattr(type(fetches), "_make", type(fetches))
        return lambda values: make([part(values) for part in parts])
    if isinstance(fetches, Mapping):
        named = {key: _parse(graph, item, elements, depth + 1) for key, item in fetches.items()}
        return lambda values: _like(fetches, {key: part(values) for key, part in named.items()})
    fields = _fields(fetches)
    if fields is not None:
        record, items = (
            type(fetches),
            [(to, _parse(graph, getattr(fetches, name), elements, depth + 1)) for name, to in fields],
        )
        return lambda values: record(**{to: part(values) for to, part in items})
    place = elements.setdefault(fetchable(graph, fetches), len(elements))
    return lambda values: values[place]


def _like(mapping: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return a dict of the mapping's class, also for `defaultdict` and `OrderedDict`; else a plain dict."""
    if type(mapping) is dict or not isinstance(mapping, dict):
        return values
    made = copy.copy(mapping)
    made.update(values)
    return made


def _fields(value: Any) -> list[tuple[str, str]] | None:
    """Return the attributes of a record (a dataclass, an object of attrs), and the parameters that they set."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [(field.name, field.name) for field in dataclasses.fields(value) if field.init]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else [(a.name, a.alias) for a in attributes if a.init]


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
    operation = element.op if isinstance(element, Tensor) else element
    if not graph.is_fetchable(element):
        why = "may not be fetched: the graph prevents it"
    elif isinstance(element, Tensor) and element.dtype is dtypes.resource and not isinstance(element.spec, ListSpec):
        why = "is a handle and has no value; fetch what is read from it"
    else:
        return element
    raise ValueError(f"{element.name!r} {why}\n  built at: {describe_line(operation)}")
