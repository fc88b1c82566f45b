"""Conditional accumulators as users hold them: gradients of several steps or tasks added up, then taken at once."""

from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import accumulators as ops
from aioflow.library.resource_handle import Handle, outside
from aioflow.tensors.dtypes import DType, ShapeLike, TensorShape, as_dtype, as_shape
from aioflow.waiting.accumulators import UNORDERED


class ConditionalAccumulatorBase(Handle):
    """What accumulators of both kinds have. Not made directly.

    Args:
        dtype: the dtype of the gradients.
        shape: their shape, as far as it is known.
        accumulator_ref: the handle, a tensor.
    """

    def __init__(self, dtype: Any, shape: ShapeLike, accumulator_ref: Tensor) -> None:
        super().__init__(accumulator_ref)
        self._dtype: Final = as_dtype(dtype)
        self._shape: Final = as_shape(shape)

    @property
    def accumulator_ref(self) -> Tensor:
        """Its handle."""
        return self._ref

    @property
    def dtype(self) -> DType:
        """The dtype of the gradients."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The known part of the shape of gradients."""
        return self._shape

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """How many gradients were added since the last were taken."""
        return self._build("num_accumulated", name, lambda name: ops.accumulator_num_accumulated(self._ref, name=name))

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Operation:
        """An operation after which the accumulator is in that step: gradients of earlier ones are stale."""
        return self._build(
            "set_global_step", name, lambda name: ops.accumulator_set_global_step(self._ref, new_global_step, name)
        )


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds gradients up, and gives their mean or sum when the required number has come.

    Adding never waits; a gradient of a step before the accumulator's own is dropped. Taking waits without a thread, and
    begins the next step. Narrow floats are added as float32.

    Args:
        dtype: the dtype of the gradients.
        shape: their shape, as far as it is known.
        shared_name: accumulators of that name are one, in sessions that share their container.
        name: its name.
        reduction_type: "MEAN" or "SUM".

    Raises:
        TypeError, ValueError: there is no such reduction, or no mean of that dtype.
    """

    @transactional
    def __init__(
        self,
        dtype: Any,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        with outside() as container:
            ref = ops.conditional_accumulator(dtype, shape, container, shared_name or "", reduction_type, name=name)
        super().__init__(dtype, shape, ref)

    def apply_grad(
        self, grad: TensorLike, local_step: TensorLike = 0, name: str | None = None, order: int = UNORDERED
    ) -> Operation:
        """An operation that adds a gradient, unless it is stale. It never waits.

        An added gradient stays, as an update of a variable does, if the step is cancelled afterwards.

        Args:
            grad: the gradient.
            local_step: the step it is of.
            name: the name of the operation.
            order: the place of its task among those that add gradients, from 0 on. They are added in that order, so
                that the sum is the same to the last bit whatever the order of arrival; those without, -1, are added
                before them, as they arrive.
        """

        def build(name: str) -> Operation:
            given = convert_to_tensor(grad, self._dtype)
            return ops.accumulator_apply_gradient(self._ref, local_step, given, order, name)

        return self._build("apply_grad", name, build)

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> Tensor:
        """The mean or sum of all gradients added, once `num_required` were; none is taken before.

        The run fails with InvalidArgumentError unless `num_required` is positive.
        """
        return self._build("take_grad", name, lambda name: ops.accumulator_take_gradient(self._ref, num_required, name))


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """The same for gradients of which only some rows are held, as `IndexedSlices` are.

    Rows of the same index are added. In the mean each is divided by the number of gradients that had it.

    Args:
        dtype: the dtype of the gradients.
        shape: the shape of the whole, as far as it is known.
        shared_name: accumulators of that name are one, in sessions that share their container.
        name: its name.
        reduction_type: "MEAN" or "SUM".
    """

    @transactional
    def __init__(
        self,
        dtype: Any,
        shape: ShapeLike = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        with outside() as container:
            ref = ops.sparse_conditional_accumulator(
                dtype, shape, container, shared_name or "", reduction_type, name=name
            )
        super().__init__(dtype, shape, ref)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: TensorLike = 0, name: str | None = None, order: int = UNORDERED
    ) -> Operation:
        """An operation that adds a gradient, unless it is stale; see `ConditionalAccumulator.apply_grad`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name, order)

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike = None,
        local_step: TensorLike = 0,
        name: str | None = None,
        order: int = UNORDERED,
    ) -> Operation:
        """An operation that adds the gradient whose row `grad_indices[i]` is `grad_values[i]`, unless it is stale.

        Rows named twice are summed. See `ConditionalAccumulator.apply_grad`.
        """

        def build(name: str) -> Operation:
            values = convert_to_tensor(grad_values, self._dtype)
            shape: TensorLike = [] if grad_shape is None else grad_shape
            known = grad_shape is not None
            return ops.sparse_accumulator_apply_gradient(
                self._ref, local_step, grad_indices, values, shape, known, order, name
            )

        return self._build("apply_grad", name, build)

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Indices, values and shape of the mean or sum of all gradients, once `num_required` were added.

        The indices ascend; where the shape of the whole is not known it is -1.
        """
        indices, values, shape = self._build(
            "take_grad", name, lambda name: ops.sparse_accumulator_take_gradient(self._ref, num_required, name)
        )
        return indices, values, shape

    def take_indexed_slices_grad(self, num_required: TensorLike, name: str | None = None) -> IndexedSlices:
        """The same as IndexedSlices."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
