"""What checkpoints hold: variables, and on request what a run leaves beside them. Each builds its own nodes."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.state import run_state
from aioflow.kernels.state.accumulators import AccumulatorSpec
from aioflow.kernels.state.barrier import BarrierSpec
from aioflow.kernels.state.checkpoint import STATE, Slice, adopt_variable
from aioflow.kernels.state.queue_handles import QueueSpec
from aioflow.kernels.state.readers import ReaderSpec, reader_restore_state
from aioflow.kernels.state.snapshots import cut_variable, mark_variable
from aioflow.kernels.state.staging import AreaSpec, MapSpec
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape

_log: Final = logging.getLogger("aioflow.train")
_NOT_SAVED: Final = (AccumulatorSpec, AreaSpec, BarrierSpec, MapSpec)


class Entry(NamedTuple):
    """A tensor of a checkpoint, or a part of one.

    Attributes:
        name: the tensor's.
        dtype: its dtype.
        shape: that of the part, as far as it is fixed.
        part: which part; nothing if it is the whole.
    """

    name: str
    dtype: DType
    shape: TensorShape
    part: Slice = ()


class Savable(Protocol):
    """Something that is saved and restored."""

    @property
    def home(self) -> Operation:
        """The operation on whose task it is."""

    @property
    def entries(self) -> Sequence[Entry]:
        """What checkpoints have of it."""

    def mark(self) -> Operation:
        """What says that it will be taken at the moment of the cut."""

    def take(self, cut: bool) -> Sequence[Tensor]:
        """The values of its entries; at the moment of the cut if there is one."""

    def give_back(self, values: Sequence[Tensor]) -> Operation:
        """What makes it as it was when its entries had these values."""


@dataclasses.dataclass(frozen=True, slots=True)
class SavedVariable:
    """A variable.

    Attributes:
        name: of the tensor in checkpoints.
        variable: what holds it, or the part of it that is told.
        part: which part; nothing if it is the whole.
    """

    name: str
    variable: Variable
    part: Slice = ()

    @property
    def home(self) -> Operation:
        """Its handle."""
        return self.variable.op

    @property
    def entries(self) -> Sequence[Entry]:
        """Its value."""
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
class SavedQueue:
    """The elements of a queue, and those that wait to be put into it.

    Attributes:
        handle: to the queue.
    """

    handle: Tensor

    @property
    def home(self) -> Operation:
        """Its handle."""
        return self.handle.op

    @property
    def entries(self) -> Sequence[Entry]:
        """Text, then values and sizes of each component."""
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
    """Where a reader is.

    Attributes:
        handle: to the reader.
    """

    handle: Tensor

    @property
    def home(self) -> Operation:
        """Its handle."""
        return self.handle.op

    @property
    def entries(self) -> Sequence[Entry]:
        """Its state, as text."""
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
    """How often random operations ran on a task, which decides what numbers they give next.

    Attributes:
        home: an operation on that task.
        place: how the task is called.
    """

    home: Operation
    place: str

    @property
    def entries(self) -> Sequence[Entry]:
        """Counts by name, as text."""
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
    """The queues and readers of a graph, each once however many handles it has. The log tells what else has state."""
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
