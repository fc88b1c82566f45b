"""Handles of conditional accumulators, which add up gradients of several steps or tasks until a take."""

from typing import Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import accumulators as ops
from aioflow.library.resource_handle import Handle, outside
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, TensorShape, as_dtype, as_shape
from aioflow.waiting.accumulators import UNORDERED


class ConditionalAccumulatorBase(Handle):
    """The common part of both kinds of accumulators. Not created directly.

    Args:
        dtype: the dtype of the gradients.
        shape: the known part of their shape.
        accumulator_ref: the handle, a tensor.
    """

    def __init__(self, dtype: DTypeLike, shape: ShapeLike, accumulator_ref: Tensor) -> None:
        super().__init__(accumulator_ref)
        self._dtype: Final = as_dtype(dtype)
        self._shape: Final = as_shape(shape)

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle, a tensor."""
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
        """Return the number of gradients that were added since the last take."""
        return self._build("num_accumulated", name, lambda name: ops.accumulator_num_accumulated(self._ref, name=name))

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that moves the accumulator to that step: gradients of earlier steps are stale."""
        return self._build(
            "set_global_step", name, lambda name: ops.accumulator_set_global_step(self._ref, new_global_step, name)
        )


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds up gradients, and returns their mean or sum when enough were added.

    Adding never waits; a gradient of an earlier step than the accumulator's is dropped. Taking waits without a thread,
    and begins the next step. Narrow floats are added as float32.

    Args:
        dtype: the dtype of the gradients.
        shape: the known part of their shape.
        shared_name: accumulators of this name are one accumulator, in sessions that share their container.
        name: the name of the accumulator.
        reduction_type: "MEAN" or "SUM".

    Raises:
        TypeError, ValueError: there is no such reduction, or no mean of that dtype.
    """

    @transactional
    def __init__(
        self,
        dtype: DTypeLike,
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
        """Return an operation that adds a gradient, unless it is stale. It never waits.

        If the step is cancelled afterwards, an added gradient stays, like an update of a variable.

        Args:
            grad: the gradient.
            local_step: the step of the gradient.
            name: the name of the operation.
            order: the number of its task among those that add gradients, from 0 on. Gradients are added in this order,
                so that the sum is the same to the last bit for any order of arrival. Gradients with order -1 are added
                first, as they arrive.
        """

        def build(name: str) -> Operation:
            given = convert_to_tensor(grad, self._dtype)
            return ops.accumulator_apply_gradient(self._ref, local_step, given, order, name)

        return self._build("apply_grad", name, build)

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> Tensor:
        """Return the mean or sum of all added gradients, once there are `num_required`; takes none before.

        The run fails with InvalidArgumentError unless `num_required` is positive.
        """
        return self._build("take_grad", name, lambda name: ops.accumulator_take_gradient(self._ref, num_required, name))


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds up gradients of some rows, given as `IndexedSlices`. See `ConditionalAccumulator`.

    Rows of the same index are added. In the mean each row is divided by the number of gradients that had it.

    Args:
        dtype: the dtype of the gradients.
        shape: the known part of the full shape.
        shared_name: accumulators of this name are one accumulator, in sessions that share their container.
        name: the name of the accumulator.
        reduction_type: "MEAN" or "SUM".
    """

    @transactional
    def __init__(
        self,
        dtype: DTypeLike,
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
        """Return an operation that adds a gradient, unless it is stale; see `ConditionalAccumulator.apply_grad`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name, order)

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: NumberLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
        order: int = UNORDERED,
    ) -> Operation:
        """Return an operation that adds the gradient with rows `grad_values[i]` at `grad_indices[i]`, unless stale.

        Rows named twice are summed. See `ConditionalAccumulator.apply_grad`.
        """

        def build(name: str) -> Operation:
            values = convert_to_tensor(grad_values, self._dtype)
            shape: NumberLike = [] if grad_shape is None else grad_shape
            known = grad_shape is not None
            return ops.sparse_accumulator_apply_gradient(
                self._ref, local_step, grad_indices, values, shape, known, order, name
            )

        return self._build("apply_grad", name, build)

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return indices, values and shape of the mean or sum of all gradients, once `num_required` were added.

        The indices ascend; unknown sizes of the full shape are -1.
        """
        indices, values, shape = self._build(
            "take_grad", name, lambda name: ops.sparse_accumulator_take_gradient(self._ref, num_required, name)
        )
        return indices, values, shape

    def take_indexed_slices_grad(self, num_required: TensorLike, name: str | None = None) -> IndexedSlices:
        """Return the same as IndexedSlices."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
