"""Elements put into lists of tensors and taken out, which moves those behind them."""

from collections.abc import Callable

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels import known
from aioflow.kernels.control.tensor_lists import tensor_list_read
from aioflow.kernels.families import CPU, GPU, shape_vector
from aioflow.tensors.dtypes import Array, ListSpec, Namespace, Spec, TensorShape
from aioflow.tensors.tensor_list import UNWRITTEN, TensorList


@op
def tensor_list_insert(flow: Spec, index: Ints, value: Spec) -> Spec:
    """The list with `value` before the element `index`, or behind the last one if `index` is the length.

    InvalidArgumentError if the index is negative or higher.
    """
    known.scalar(index, "index")
    element = ListSpec.check(flow).element.same_dtype(value)
    return ListSpec.record(Spec(value.dtype, element.shape.most_specific_compatible_shape(value.shape)))


@tensor_list_insert.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None, Tensor]:
    _, index, value = op.inputs
    return tensor_list_close(dflow, index), None, tensor_list_read(dflow, index, shape_vector(value))


@tensor_list_insert.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[TensorList, Array, Array], TensorList]:
    def insert(flow: TensorList, index: Array, value: Array) -> TensorList:
        place = int(index)
        if not 0 <= place <= len(flow):
            raise IndexError(f"an element cannot be put to index {place} of a list of {len(flow)}")
        return _opened(flow, place, value)

    return insert


def _opened(flow: TensorList, place: int, item: Array) -> TensorList:
    if place == len(flow):
        return flow.append(item)
    items = flow.elements()
    items.insert(place, item)
    return TensorList.of(items)


@op
def tensor_list_erase(flow: Spec, index: Ints) -> Spec:
    """The list without the element `index`. InvalidArgumentError if there is none."""
    known.scalar(index, "index")
    return ListSpec.record(ListSpec.check(flow).element)


@tensor_list_erase.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None]:
    return tensor_list_open(dflow, op.inputs[1]), None


@tensor_list_erase.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[TensorList, Array], TensorList]:
    def erase(flow: TensorList, index: Array) -> TensorList:
        place = int(index)
        if not 0 <= place < len(flow):
            raise IndexError(f"index {place} is out of range for a list of {len(flow)}")
        return _closed(flow, place)

    return erase


def _closed(flow: TensorList, place: int) -> TensorList:
    if place == len(flow) - 1:
        return flow.pop()[1]
    items = flow.elements()
    del items[place]
    return TensorList.of(items)


# Lists of gradients may be shorter than the lists that they belong to: the rest is zeros


@op
def tensor_list_open(flow: Spec, index: Ints) -> Spec:
    """A list of gradients with one slot more, which is a gap, before the element `index`."""
    return ListSpec.record(ListSpec.check(flow).element)


@tensor_list_open.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None]:
    return tensor_list_close(dflow, op.inputs[1]), None


tensor_list_open.kernel(CPU, GPU, binds=True)(
    lambda xp, node: lambda flow, index: _opened(flow, int(index), UNWRITTEN) if int(index) < len(flow) else flow
)


@op
def tensor_list_close(flow: Spec, index: Ints) -> Spec:
    """A list of gradients without the slot `index`."""
    return ListSpec.record(ListSpec.check(flow).element)


@tensor_list_close.gradient
def _(op: Operation, dflow: Tensor) -> tuple[Tensor, None]:
    return tensor_list_open(dflow, op.inputs[1]), None


tensor_list_close.kernel(CPU, GPU, binds=True)(
    lambda xp, node: lambda flow, index: _closed(flow, int(index)) if int(index) < len(flow) else flow
)


@op
def tensor_list_loosen(flow: Spec, shape: TensorShape) -> Spec:
    """The same list, whose elements have a shape of which only so much is known."""
    element = ListSpec.check(flow).element
    return ListSpec.record(Spec(element.dtype, element.shape.most_specific_compatible_shape(TensorShape(shape))))


@tensor_list_loosen.gradient
def _(op: Operation, dflow: Tensor) -> Tensor:
    return dflow


tensor_list_loosen.kernel(CPU, GPU)(lambda xp, flow: flow)
