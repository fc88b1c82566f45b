"""The objects in checkpoints: variables, lookup tables, and, on request, the state of the inputs.

Each builds its own nodes.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor, items_of
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.state import run_state
from aioflow.kernels.state.accumulators import AccumulatorSpec
from aioflow.kernels.state.barrier import BarrierSpec
from aioflow.kernels.state.checkpoint import STATE, Slice, adopt_variable
from aioflow.kernels.state.lookup_tables import (
    MutableSpec,
    cut_table,
    lookup_table_export,
    lookup_table_import,
    mark_table,
)
from aioflow.kernels.state.readers import ReaderSpec, reader_restore_state
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.kernels.state.run_state import cut_variable, mark_variable
from aioflow.kernels.state.staging import AreaSpec, MapSpec
from aioflow.library.mutable_tables import MutableTable
from aioflow.library.partitioned_variables import PartitionedVariable
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.train")
_NOT_SAVED: Final = (AccumulatorSpec, AreaSpec, BarrierSpec, MapSpec)


class Entry(NamedTuple):
    """A tensor of a checkpoint, or a part of one.

    Attributes:
        name: name of the tensor.
        dtype: its dtype.
        shape: shape of the part, as far as it is fixed.
        part: which part; empty for the whole tensor.
    """

    name: str
    dtype: DType
    shape: TensorShape
    part: Slice = ()


class Savable(Protocol):
    """An object that can be saved and restored."""

    @property
    def home(self) -> Operation:
        """An operation on its task."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Its tensors in checkpoints."""

    def mark(self) -> Operation:
        """Return the operation that announces the reading at the moment of the snapshot."""

    def take(self, cut: bool) -> Sequence[Tensor]:
        """Return the values of its entries, at the moment of the snapshot if there is one."""

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """Return the operation that restores it from these values of its entries."""


@dataclasses.dataclass(frozen=True, slots=True)
class SavedVariable:
    """A variable.

    name: name of the tensor in checkpoints.
    variable: its variable.
    part: which part of the tensor it holds; empty for the whole tensor.
    """

    name: str
    variable: Variable
    part: Slice = ()

    @property
    def home(self) -> Operation:
        """The handle of the variable."""
        return self.variable.op

    @property
    def entries(self) -> Sequence[Entry]:
        """The tensor of the variable."""
        return [Entry(self.name, self.variable.dtype, self.variable.shape, self.part)]

    def mark(self) -> Operation:
        """See `Savable.mark`."""
        return mark_variable(self.variable.handle)

    def take(self, cut: bool) -> Sequence[Tensor]:
        """See `Savable.take`."""
        return [cut_variable(self.variable.handle) if cut else self.variable.value()]

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """See `Savable.give_back`."""
        return adopt_variable(self.variable.handle, values[0])


@dataclasses.dataclass(frozen=True, slots=True)
class SavedTable:
    """A lookup table that steps change.

    Attributes:
        name: the first part of the names of its two tensors in checkpoints.
        handle: handle of the table.
    """

    name: str
    handle: Tensor

    @property
    def home(self) -> Operation:
        """The handle of the table."""
        return self.handle.op

    @property
    def entries(self) -> Sequence[Entry]:
        """The keys and the values."""
        parts = zip(("keys", "values"), MutableSpec.check(self.handle.spec).items, strict=True)
        count = TensorShape([None])
        return [Entry(f"{self.name}-{part}", item.dtype, count.concatenate(item.shape)) for part, item in parts]

    def mark(self) -> Operation:
        """See `Savable.mark`."""
        return mark_table(self.handle)

    def take(self, cut: bool) -> Sequence[Tensor]:
        """See `Savable.take`."""
        return (cut_table if cut else lookup_table_export)(self.handle)

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """See `Savable.give_back`."""
        return lookup_table_import(self.handle, *values)


@dataclasses.dataclass(frozen=True, slots=True)
class SavedQueue:
    """The elements of a queue, and those of its waiting enqueues.

    Attributes:
        handle: handle of the queue.
    """

    handle: Tensor

    @property
    def home(self) -> Operation:
        """The handle of the queue."""
        return self.handle.op

    @property
    def entries(self) -> Sequence[Entry]:
        """A string, then values and sizes of each component."""
        name, many = f"{STATE}queue/{_shared_name(self.home)}", TensorShape([None])
        found = [Entry(name, dtypes.string, dtypes.SCALAR)]
        for place, item in enumerate(QueueSpec.check(self.handle.spec).items):
            found.append(Entry(f"{name}/{place}/values", item.dtype, many))
            found.append(Entry(f"{name}/{place}/sizes", dtypes.int64, many))
        return found

    def mark(self) -> Operation:
        """See `Savable.mark`."""
        return run_state.mark_queue(self.handle)

    def take(self, cut: bool) -> Sequence[Tensor]:
        """See `Savable.take`."""
        return run_state.cut_queue(self.handle)

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """See `Savable.give_back`."""
        return run_state.restore_queue(self.handle, values[0], values[1:])


@dataclasses.dataclass(frozen=True, slots=True)
class SavedReader:
    """The position of a reader.

    Attributes:
        handle: handle of the reader.
    """

    handle: Tensor

    @property
    def home(self) -> Operation:
        """The handle of the reader."""
        return self.handle.op

    @property
    def entries(self) -> Sequence[Entry]:
        """The state of the reader, as a string."""
        return [Entry(f"{STATE}reader/{_shared_name(self.home)}", dtypes.string, dtypes.SCALAR)]

    def mark(self) -> Operation:
        """See `Savable.mark`."""
        return run_state.mark_reader(self.handle)

    def take(self, cut: bool) -> Sequence[Tensor]:
        """See `Savable.take`."""
        return [run_state.cut_reader(self.handle)]

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """See `Savable.give_back`."""
        return reader_restore_state(self.handle, values[0])


@dataclasses.dataclass(frozen=True, slots=True)
class SavedCounts:
    """The counts of random operations on a task, which determine their next numbers.

    Attributes:
        home: an operation on that task.
        place: the name of the task.
    """

    home: Operation
    place: str

    @property
    def entries(self) -> Sequence[Entry]:
        """The counts by name, as a string."""
        return [Entry(f"{STATE}counts{self.place}", dtypes.string, dtypes.SCALAR)]

    def mark(self) -> Operation:
        """See `Savable.mark`."""
        return no_op()

    def take(self, cut: bool) -> Sequence[Tensor]:
        """See `Savable.take`."""
        return [run_state.run_counts()]

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """See `Savable.give_back`."""
        return run_state.restore_run_counts(values[0])


def run_state_of(graph: Graph) -> Iterator[Savable]:
    """Yield the queues and readers of a graph, each once. The log names other objects with state."""
    seen, left_out = set[tuple[str, str, str]](), list[str]()
    for operation in graph.get_operations():
        if not operation.definition.handle:
            continue
        key = operation.type, operation.attrs["container"], _shared_name(operation)
        if key not in seen:
            seen.add(key)
            handle = operation.outputs[0]
            if isinstance(handle.spec, QueueSpec):
                yield SavedQueue(handle)
            elif isinstance(handle.spec, ReaderSpec):
                yield SavedReader(handle)
            elif isinstance(handle.spec, _NOT_SAVED):
                left_out.append(f"{operation.name} ({operation.type})")
    if left_out:
        _log.warning("checkpoints with state=True do not have what these hold: %s", ", ".join(left_out))


def _shared_name(operation: Operation) -> str:
    return operation.attrs["shared_name"] or operation.name


Saved = SavedVariable | SavedTable
"""What a Saver may be asked to save."""


def all_to_save(graph: Graph) -> list[Variable | Tensor]:
    """Return what a Saver saves by default: global variables, and the handles of tables that steps change."""
    keys = GraphKeys.GLOBAL_VARIABLES, GraphKeys.SAVEABLE_OBJECTS
    return [each for key in keys for each in graph.get_collection(key)]


def to_save(var_list: Any) -> list[Saved]:
    """Return the objects to save, by name. TypeError or ValueError if one cannot be saved."""
    given = (
        var_list.items()
        if isinstance(var_list, Mapping)
        else [(stored_name(each), each) for each in items_of("var_list", var_list)]
    )
    found = [saved for name, value in given for saved in _saved(name, value)]
    if not found:
        raise ValueError("there are no variables to save: create variables before the Saver, or give var_list")
    wholes = Counter(name for name, each in given if getattr(each, "part_of", None) is None)
    twice = [name for name, count in wholes.items() if count > 1]
    if twice:
        raise ValueError(f"two variables would be saved as {twice[0]!r}: give a dict of names and variables")
    return found


def stored_name(variable: Any) -> str:
    """Return its name in checkpoints, which for a part is that of the whole."""
    if isinstance(variable, PartitionedVariable):
        return variable.name
    part_of = getattr(variable, "part_of", None)
    return variable_name(variable) if part_of is None else part_of.name


def variable_name(variable: Any) -> str:
    """Return its name. TypeError if it is neither a variable nor a table that steps change."""
    handle = _table_handle(variable)
    return _check_variable(variable).op.name if handle is None else handle.op.name


def _table_handle(value: Any) -> Tensor | None:
    """Return the handle of a table that steps change; None for anything else."""
    handle = value.resource_handle if isinstance(value, MutableTable) else value
    return handle if isinstance(handle, Tensor) and isinstance(handle.spec, MutableSpec) else None


def _check_variable(variable: Any) -> Variable:
    if not isinstance(variable, Variable):
        raise TypeError(f"a Saver saves variables and lookup tables, not {safe_repr(variable)}")
    return variable


def _saved(name: Any, value: Any) -> Sequence[Saved]:
    if not isinstance(name, str) or not name:
        raise TypeError(f"var_list needs text for names in the checkpoint, not {safe_repr(name)}")
    if isinstance(value, PartitionedVariable):
        return [saved for part in value for saved in _saved(name, part)]
    if isinstance(value, (list, tuple)):
        return _rows(name, [_check_variable(part) for part in value])
    handle = _table_handle(value)
    if handle is not None:
        return [SavedTable(name, handle)]
    part_of = _check_variable(value).part_of
    return [SavedVariable(name, value, () if part_of is None else (part_of.shape, part_of.begin))]


def _rows(name: str, parts: Sequence[Variable]) -> list[SavedVariable]:
    """Return the variables as those that hold consecutive rows of a tensor."""
    shapes = [known for part in parts if (known := _known(part))]
    types = {part.dtype for part in parts}
    if len(types) > 1 or dtypes.string in types:
        raise ValueError(f"parts of {name!r} must have one numeric dtype, not {[part.dtype.name for part in parts]}")
    rows = {shape[1:] for shape in shapes}
    if len(shapes) < len(parts) or len(rows) != 1:
        raise ValueError(f"parts of {name!r} must be rows of one shape, not of {[str(part.shape) for part in parts]}")
    whole, found, begin = (sum(shape[0] for shape in shapes), *rows.pop()), [], 0
    for part, shape in zip(parts, shapes, strict=True):
        found.append(SavedVariable(name, part, (whole, (begin, *[0] * (len(shape) - 1)))))
        begin += shape[0]
    return found


def _known(variable: Variable) -> tuple[int, ...]:
    """Return its shape; empty if it is not fixed."""
    sizes = variable.shape.sizes or ()
    known = tuple([size for size in sizes if size is not None])
    return known if len(known) == len(sizes) else ()
