"""How lists of tensors are written: as a tensor whose rows are the elements written so far.

ONNX's loops stack what each iteration adds, so a loop that writes an element in each iteration, one after the other,
needs no lists. That is how `map_fn`, `scan` and recurrent layers use them. A loop may also begin at the last slot: the
rows are turned round when they are read. Lists of any other use have no form.
"""

import dataclasses

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation, Tensor
from aioflow.onnx.exporting import Export, exporter
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int32, int64


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """A list of which no loop writes an element at present.

    Attributes:
        size: its number of slots; None if it grows.
        count: how many elements are written; None if that is not known.
        stacked: the name of the tensor of these elements, in the order of writing; None if there are none.
        backwards: whether they are written from the last slot on.
    """

    size: Tensor | None
    count: int | None = 0
    stacked: str | None = None
    backwards: bool = False

    def with_rows(self, export: Export, rows: str, count: int | None, backwards: bool = False) -> "Rows":
        """The list with `rows` added; it has `count` elements then, an unknown number if None."""
        if self.count != 0 and backwards != self.backwards:
            raise ValueError("the slots of a list are written from the first one on, or from the last one on")
        whole = rows if self.stacked is None else export.add("Concat", self.stacked, rows, axis=0)
        return Rows(self.size, count, whole, backwards)

    def turn(self, export: Export, index: Tensor) -> tuple[Tensor | int, bool]:
        """How many elements come before that of a slot, and whether they are counted from the last slot on."""
        place, size = constant_value(index), None if self.size is None else constant_value(self.size)
        if place is None:
            before = None if self.size is None else _before(export, uncast(index), self.size)
            known = None if before is None else constant_value(before)
            return (index, False) if before is None else (before if known is None else int(known), True)
        if size is None or (place == self.count and not self.backwards):
            return int(place), False
        return int(size - 1 - place), True


@dataclasses.dataclass(frozen=True, slots=True)
class Growing:
    """A list inside the loop that writes it: before the loop, and the element that an iteration adds, if it does.

    Attributes:
        before: the list before the loop.
        turn: how many elements come before the added one.
        added: the name of the element; None if there is none.
        backwards: whether the loop writes from the last slot on.
    """

    before: Rows
    turn: Tensor | int | None = None
    added: str | None = None
    backwards: bool = False


def uncast(tensor: Tensor) -> Tensor:
    """The tensor of which this one is the value in other dtypes."""
    while tensor.op.type == "cast":
        tensor = tensor.op.inputs[0]
    return tensor


def _before(export: Export, index: Tensor, size: Tensor) -> Tensor | None:
    """The tensor x of an index `size - 1 - x`; None if it has another form."""
    if index.op.type != "subtract":
        return None
    last, before = index.op.inputs
    known, count = constant_value(last), constant_value(size)
    if known is not None or count is not None:
        return before if known is not None and count is not None and known == count - 1 else None
    one_less = last.op.type == "subtract" and constant_value(last.op.inputs[1]) == 1
    return before if one_less and export.name(last.op.inputs[0]) == export.name(size) else None


def rows_of(export: Export, flow: Tensor) -> str:
    """The name of the tensor of the elements."""
    found = export.lists[flow]
    if isinstance(found, Growing):
        raise ValueError(f"it reads the list {flow.name!r} inside the loop that writes it")
    if found.stacked is None:
        raise ValueError(f"nothing is written to the list {flow.name!r}")
    if not found.backwards:
        return str(found.stacked)
    bounds = [export.integers([number]) for number in (-1, int64.min, 0, -1)]
    return export.add("Slice", found.stacked, *bounds)


@exporter("tensor_array")
def _(export: Export, op: Operation) -> list[str]:
    export.lists[op.outputs[0]] = Rows(None if op.attrs["dynamic_size"] else op.inputs[0])
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
    found = export.lists[flow]
    turn, backwards = (found.before if isinstance(found, Growing) else found).turn(export, index)
    if isinstance(found, Growing) and found.added is None:
        export.lists[op.outputs[0]] = Growing(found.before, turn, export.name(value), backwards)
        return []
    if not isinstance(found, Rows) or not isinstance(turn, int) or turn != found.count:
        raise ValueError("the slots of a list are written one after the other, one in each iteration of a loop")
    row = export.add("Unsqueeze", export.name(value), export.integers([0]))
    export.lists[op.outputs[0]] = found.with_rows(export, row, turn + 1, backwards)
    return []


@exporter("tensor_array_read")
def _(export: Export, op: Operation) -> str:
    return export.add("Gather", rows_of(export, op.inputs[0]), export.name(op.inputs[1]))


@exporter("tensor_array_gather")
def _(export: Export, op: Operation) -> str:
    return export.add("Gather", rows_of(export, op.inputs[0]), export.name(op.inputs[1]))


@exporter("tensor_array_size")
def _(export: Export, op: Operation) -> str:
    flow = op.inputs[0]
    found = export.lists[flow]
    size = found.before.size if isinstance(found, Growing) else found.size
    if size is not None:
        return export.name(size)
    count = export.add("Squeeze", export.add("Shape", rows_of(export, flow), start=0, end=1), export.integers([0]))
    return export.add("Cast", count, to=NUMBERS[int32])


@exporter("tensor_array_clear")
def _(export: Export, op: Operation) -> list[str]:
    export.lists[op.outputs[0]] = export.lists[op.inputs[0]]  # nothing reads what was cleared
    return []
