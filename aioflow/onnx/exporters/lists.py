"""How lists of tensors are written: as a tensor whose rows are the elements written so far.

ONNX's loops stack what each iteration adds, so a loop that writes an element in each iteration, one after the other,
needs no lists. That is how `map_fn`, `scan` and recurrent layers use them. Lists of any other use have no form.
"""

import dataclasses

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, exporter
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int32


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """A list of which no loop writes an element at present.

    Attributes:
        size: the name of its number of slots; None if it grows.
        count: how many elements are written; None if that is not known.
        stacked: the name of the tensor of these elements; None if there are none.
    """

    size: str | None
    count: int | None = 0
    stacked: str | None = None

    def with_rows(self, export: Export, rows: str, count: int | None) -> "Rows":
        """The list with `rows` added at its end; it has `count` elements then, an unknown number if None."""
        whole = rows if self.stacked is None else export.add("Concat", self.stacked, rows, axis=0)
        return Rows(self.size, count, whole)


@dataclasses.dataclass(frozen=True, slots=True)
class Growing:
    """A list inside the loop that writes it: before the loop, and the element that an iteration adds, if it does."""

    before: Rows
    place: Tensor | None = None
    added: str | None = None


def _rows(export: Export, flow: Tensor) -> str:
    """The name of the tensor of the elements."""
    found = export.lists[flow]
    if isinstance(found, Growing):
        raise ValueError(f"it reads the list {flow.name!r} inside the loop that writes it")
    if found.stacked is None:
        raise ValueError(f"nothing is written to the list {flow.name!r}")
    return str(found.stacked)


@exporter("tensor_array")
def _(export: Export, op: Operation) -> list[str]:
    export.lists[op.outputs[0]] = Rows(None if op.attrs["dynamic_size"] else export.name(op.inputs[0]))
    return []


@exporter("tensor_array_scatter")
def _(export: Export, op: Operation) -> list[str]:
    flow, indices, value = op.inputs
    known, found = export.lists[flow], indices.op
    bounds = [constant_value(found.inputs[place]) for place in (0, 2)] if found.type == "range" else [None, None]
    if not isinstance(known, Rows) or known.count != 0 or bounds != [0, 1]:
        raise ValueError("elements are written to all slots of a new list, in their order, or one by one")
    export.lists[op.outputs[0]] = known.with_rows(export, export.name(value), None)
    return []


@exporter("tensor_array_write")
def _(export: Export, op: Operation) -> list[str]:
    flow, index, value = op.inputs
    found, place = export.lists[flow], constant_value(index)
    if isinstance(found, Growing) and found.added is None:
        export.lists[op.outputs[0]] = Growing(found.before, index, export.name(value))
        return []
    if not isinstance(found, Rows) or place is None or place != found.count:
        raise ValueError("the slots of a list are written one after the other, one in each iteration of a loop")
    row = export.add("Unsqueeze", export.name(value), export.integers([0]))
    export.lists[op.outputs[0]] = found.with_rows(export, row, int(place) + 1)
    return []


@exporter("tensor_array_read")
def _(export: Export, op: Operation) -> str:
    return export.add("Gather", _rows(export, op.inputs[0]), export.name(op.inputs[1]))


@exporter("tensor_array_gather")
def _(export: Export, op: Operation) -> str:
    return export.add("Gather", _rows(export, op.inputs[0]), export.name(op.inputs[1]))


@exporter("tensor_array_size")
def _(export: Export, op: Operation) -> str:
    flow = op.inputs[0]
    found = export.lists[flow]
    size = found.before.size if isinstance(found, Growing) else found.size
    if size is not None:
        return str(size)
    count = export.add("Squeeze", export.add("Shape", _rows(export, flow), start=0, end=1), export.integers([0]))
    return export.add("Cast", count, to=NUMBERS[int32])


@exporter("tensor_array_clear")
def _(export: Export, op: Operation) -> list[str]:
    export.lists[op.outputs[0]] = export.lists[op.inputs[0]]  # nothing reads what was cleared
    return []
