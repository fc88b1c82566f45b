"""TensorArray: a list of tensors that ops write and read one by one."""

import functools
from typing import TYPE_CHECKING, Any

from aioflow.graph.building import transactional
from aioflow.graph.composites import COMPOSITES, Composite
from aioflow.graph.convert import CONVERTERS, NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity, list_placeholder, no_op
from aioflow.kernels.array.ranges import range
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control import tensor_array as ops
from aioflow.tensors.dtypes import DType, DTypeLike, ListSpec, ShapeLike, TensorShape, as_dtype, int32

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph


class TensorArray:
    """A list of tensors of one dtype, written slot by slot, each once.

        squares = af.TensorArray(af.float32, size=3)
        for i in range(3):
            squares = squares.write(i, x * i)
        y = squares.stack()

    It is a value: `write`, `unstack`, `scatter` and `split` return a new TensorArray, and the original stays unchanged.
    So it can be a loop variable, or the result of a branch. With `clear_after_read`, a read releases the tensor of the
    slot, and a second read through the same object, or one made from it later, is an error. In a body of `cond` or
    `while_loop` this holds for TensorArrays that are its arguments or that it creates; it never clears one of an
    enclosing graph.

    A run fetches it as a Python list of arrays, with None for slots without a tensor, and is fed one the same way.

    Gradients pass through it in `af.gradients`.

    Args:
        dtype: the dtype of the tensors.
        size: the number of slots, an integer or a tensor with one.
        dynamic_size: whether writing past the end makes it longer; by default not.
        clear_after_read: whether a slot can be read only once, so that its memory is free early; by default so.
        tensor_array_name: has no meaning here.
        handle: another TensorArray's handle, instead of `size`; the same as `flow`.
        flow: the list itself, as another TensorArray has it, instead of `size`; the options are its own then.
        infer_shape: whether all tensors have one shape, which is learnt from the writes.
        element_shape: the known part of that shape. If it is fully known, unwritten slots are read as zeros.
        colocate_with_first_write_call: has no meaning here.
        name: the name of the operation.

    Raises:
        ValueError: neither a size nor a flow is given, or the size is negative.
        TypeError: the dtype is not the flow's, or the flow is no TensorArray's.

    Examples:
        >>> squares = af.TensorArray(af.int32, size=3)
        >>> squares = af.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, i * i)), [0, squares])[1]
        >>> await session.run(squares.stack())
        array([0, 1, 4], dtype=int32)
    """

    def __init__(
        self,
        dtype: DTypeLike,
        size: TensorLike | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: ShapeLike = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        given = handle if flow is None else flow
        if (given is None) == (size is None):
            raise ValueError("a TensorArray is given a size, or the flow of another one, not both or neither")
        if given is None:
            clears = clear_after_read is None or clear_after_read
            given = ops.tensor_array(size, dtype, element_shape, bool(dynamic_size), clears, infer_shape, name=name)
        self._flow: Tensor = given
        if ListSpec.check(given.spec).element.dtype is not as_dtype(dtype):
            raise TypeError(f"the flow {given!r} has elements of another dtype than {as_dtype(dtype).name}")

    @classmethod
    def placeholder(cls, dtype: DTypeLike, element_shape: ShapeLike = None, name: str | None = None) -> "TensorArray":
        """Return a TensorArray that every run which needs it must be fed, as a Python list of arrays of any length.

        The elements may differ in the sizes that `element_shape` leaves open. It grows with writes past its end.
        """
        return cls(dtype, flow=list_placeholder(dtype, element_shape, name=name))

    def with_flow(self, flow: Tensor) -> "TensorArray":
        """Return the TensorArray whose list is `flow`, the result of ops, a branch or a loop on another one."""
        made = TensorArray.__new__(TensorArray)
        ListSpec.check(flow.spec)
        made._flow = flow
        return made

    @property
    def flow(self) -> Tensor:
        """The list, as a tensor that ops pass on. Like the TensorArray, it is fed and fetched as a Python list."""
        return self._flow

    handle = flow

    @property
    def dtype(self) -> DType:
        """The dtype of its tensors."""
        return self._spec.element.dtype

    @property
    def element_shape(self) -> TensorShape:
        """The known part of the shape of each tensor."""
        return self._spec.element.shape

    @property
    def dynamic_size(self) -> bool:
        """Whether writing past the end makes it longer."""
        return self._spec.dynamic_size

    @property
    def graph(self) -> "Graph":
        """The graph of the TensorArray."""
        return self._flow.graph

    @property
    def _spec(self) -> ListSpec:
        return ListSpec.check(self._flow.spec)

    # Writing

    @transactional
    def write(self, index: NumberLike, value: TensorLike, name: str | None = None) -> "TensorArray":
        """Return the TensorArray with `value` in the slot `index`.

        Raises:
            TypeError, ValueError: another dtype or shape, or a known index out of range.
            InvalidArgumentError: in the run, the same, or the slot is written already.
        """
        return self.with_flow(ops.tensor_array_write(self._flow, index, self._convert(value), name=name))

    @transactional
    def unstack(self, value: TensorLike, name: str | None = None) -> "TensorArray":
        """Return the TensorArray with the rows of `value` in the slots from 0 on. Raises the errors of `write`."""
        tensor = self._convert(value)
        if tensor.spec.rank == 0:
            raise ValueError("a value of rank 0 has no rows")
        count, size = tensor.shape[0].value, self._spec.size
        if count is not None and size is not None and count > size:
            raise ValueError(f"{count} rows do not fit {size} slots; pass dynamic_size=True to let it grow")
        indices = range(shape(tensor)[0] if count is None else count)
        return self.with_flow(ops.tensor_array_scatter(self._flow, indices, tensor, name=name))

    @transactional
    def scatter(self, indices: NumberLike, value: TensorLike, name: str | None = None) -> "TensorArray":
        """Return the TensorArray with each row of `value` in the slot of its index. Raises the errors of `write`."""
        return self.with_flow(ops.tensor_array_scatter(self._flow, indices, self._convert(value), name=name))

    @transactional
    def split(self, value: TensorLike, lengths: NumberLike, name: str | None = None) -> "TensorArray":
        """Return the TensorArray with the pieces of `value` along its first axis, of these lengths, in its slots.

        There must be as many lengths as slots, unless it can grow. Raises the errors of `write`.
        """
        return self.with_flow(ops.tensor_array_split(self._flow, self._convert(value), lengths, name=name))

    def _convert(self, value: TensorLike) -> Tensor:
        return convert_to_tensor(value, preferred_dtype=self.dtype)

    # Reading

    @transactional
    def read(self, index: NumberLike, name: str | None = None) -> Tensor:
        """Return the value of the slot `index`; zeros if it is not written and the shape of the elements is known.

        Raises:
            ValueError: a known index is out of range.
            InvalidArgumentError: in the run, the same, or it was read before, or there is no shape for zeros.
        """
        place = convert_to_tensor(index, preferred_dtype=int32)
        return self._clear_after_read(ops.tensor_array_read(self._flow, place, name=name), place)

    @transactional
    def gather(self, indices: NumberLike, name: str | None = None) -> Tensor:
        """Return the values of the slots of these indices, stacked along a new first axis. Raises as `read` does."""
        places = convert_to_tensor(indices, preferred_dtype=int32)
        return self._clear_after_read(ops.tensor_array_gather(self._flow, places, name=name), places)

    @transactional
    def stack(self, name: str | None = None) -> Tensor:
        """Return the values of all slots, stacked along a new first axis. Raises the errors of `read`."""
        places = self._all_indices()
        return self._clear_after_read(ops.tensor_array_gather(self._flow, places, name=name), places)

    @transactional
    def concat(self, name: str | None = None) -> Tensor:
        """Return the values of all slots, concatenated along the first axis. Raises the errors of `read`."""
        value, _ = ops.tensor_array_concat(self._flow, name=name)
        return self._clear_after_read(value, self._all_indices() if self._spec.clear_after_read else None)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of slots."""
        return ops.tensor_array_size(self._flow, name=name)

    def _all_indices(self) -> Tensor:
        return range(ops.tensor_array_size(self._flow))

    def _clear_after_read(self, value: Tensor, places: Tensor | None) -> Tensor:
        """Return `value`, read from these slots. Later reads use a list without them.

        Not in a body that uses the list of an enclosing graph, since others use it too.
        """
        if self._spec.clear_after_read and value.graph is self._flow.graph:
            before, self._flow = self._flow, ops.tensor_array_clear(self._flow, places)
            value.graph.on_failure(functools.partial(setattr, self, "_flow", before))
        return value

    # For compatibility with TensorFlow

    def identity(self) -> "TensorArray":
        """Return the same TensorArray, waiting for the operations of enclosing `control_dependencies`."""
        return self.with_flow(identity(self._flow))

    def close(self, name: str | None = None) -> Operation:
        """Return an operation that does nothing: the memory of a list is free after its last use."""
        return no_op(name=name)

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> "TensorArray":
        """Raise NotImplementedError: there is no TensorArray of gradients; `af.gradients` builds gradients."""
        raise NotImplementedError("a TensorArray has no gradient array: use af.gradients of a tensor computed from it")

    def __len__(self) -> int:
        raise TypeError(f"{self!r} has no len(): use its .size() for the number of slots in a run")

    def __repr__(self) -> str:
        return f"<af.TensorArray {self._flow.name!r} {self.dtype.name}{self.element_shape}>"


def _refuse(*given: Any) -> Any:
    raise TypeError("a TensorArray is not a tensor: use .stack(), .concat() or .read(i), and .unstack(x) to fill it")


COMPOSITES[TensorArray] = Composite(
    tensors=lambda array: (array.flow,), join=lambda array, values: values[0], split=lambda array, value: (value,)
)
CONVERTERS[TensorArray] = _refuse
