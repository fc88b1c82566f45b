"""Handles of barriers, and of conditional accumulators, which add up gradients of several steps until a take."""

from typing import Any, Final, NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import accumulators as ops
from aioflow.kernels.state import barrier as barriers
from aioflow.library.resource_handle import Handle, dtypes_of, outside, shapes_of
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, TensorShape, as_dtype, as_shape
from aioflow.waiting.accumulators import UNORDERED


class ConditionalAccumulatorBase(Handle):
    """The common part of both kinds of accumulators. Not created directly.

    Args:
        dtype: the dtype of the gradients.
        shape: the known part of their shape.
        accumulator_ref: the handle, a tensor.

    Examples:
        >>> isinstance(af.ConditionalAccumulator(af.float32, []), af.ConditionalAccumulatorBase)
        True
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

    Examples:
        >>> gradients = af.ConditionalAccumulator(af.float32, shape=[])
        >>> await session.run([gradients.apply_grad(1.0), gradients.apply_grad(3.0)])
        [None, None]
        >>> await session.run(gradients.take_grad(2))
        np.float32(2.0)
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
        shape: the known part of the full shape; [] for an unknown one, since a gradient with rows has an axis.
        shared_name: accumulators of this name are one accumulator, in sessions that share their container.
        name: the name of the accumulator.
        reduction_type: "MEAN" or "SUM".

    Examples:
        >>> accumulator = af.SparseConditionalAccumulator(af.float32, [3, 1])
        >>> await session.run(accumulator.apply_grad([0, 2], [[1.0], [2.0]]))
        >>> average = accumulator.take_indexed_slices_grad(1)
        >>> await session.run([average.indices, average.values])
        [array([0, 2]), array([[1.],
               [2.]], dtype=float32)]
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
        shape = None if as_shape(shape).ndims == 0 else shape
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


class BarrierTakeMany(NamedTuple):
    """Tuples taken from a barrier: the insertion that first named each key, the keys, and each component stacked."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier(Handle):
    """Combines components that arrive one by one, in any order, under keys to tuples.

        barrier = af.Barrier((af.string, af.float32), shapes=((), (2,)))
        insert_names = barrier.insert_many(0, keys, names)
        insert_points = barrier.insert_many(1, keys, points)
        taken = barrier.take_many(10)

    A key is incomplete until each component was inserted. Then its tuple is ready, and leaves after the tuples whose
    keys were inserted earlier. Taking waits without a thread; a cancelled take removes nothing.

    Args:
        types: the dtype of each component.
        shapes: the shape of each component, which is never empty; without shapes any shape is allowed.
        shared_name: barriers of this name are one barrier, in sessions that share their container.
        name: the name of the barrier.

    Raises:
        TypeError, ValueError: the arguments contradict each other.

    Examples:
        >>> barrier = af.Barrier([af.int32, af.int32], shapes=[[], []])
        >>> await session.run(barrier.insert_many(0, ["a", "b"], [1, 2]))
        >>> await session.run(barrier.insert_many(1, ["b", "a"], [20, 10]))
        >>> indices, keys, values = barrier.take_many(2)
        >>> await session.run([keys, values])
        [array([b'b', b'a'], dtype=object), [array([2, 1], dtype=int32), array([20, 10], dtype=int32)]]
    """

    @transactional
    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types: Final = dtypes_of(types)
        self._shapes: Final = shapes_of(shapes, len(self._types))
        with outside() as container:
            ref = barriers.barrier(
                self._types, self._shapes, container=container, shared_name=shared_name or "", name=name
            )
        super().__init__(ref)

    @property
    def barrier_ref(self) -> Tensor:
        """The handle, a tensor."""
        return self._ref

    @property
    def types(self) -> list[DType]:
        """The dtype of each component."""
        return list(self._types)

    @property
    def shapes(self) -> list[TensorShape]:
        """The known part of each component's shape."""
        return list(self._shapes)

    def insert_many(
        self, component_index: int, keys: TensorLike, values: TensorLike, name: str | None = None
    ) -> Operation:
        """Return an operation that inserts each row of `values` as a component of its key: all of them, or none.

        It fails with InvalidArgumentError if a key has this component already, and with CancelledError if the barrier
        is closed and a key is new.
        """

        def build(name: str) -> Operation:
            dtype = self._types[component_index] if 0 <= component_index < len(self._types) else None
            given = convert_to_tensor(keys, dtypes.string), convert_to_tensor(values, dtype)
            return barriers.barrier_insert_many(self._ref, *given, component_index, name)

        return self._build("insert_many", name, build)

    def take_many(
        self,
        num_elements: TensorLike,
        allow_small_batch: bool = False,
        timeout: int | None = None,
        name: str | None = None,
        wait_for_incomplete: bool = False,
    ) -> BarrierTakeMany:
        """Take the next `num_elements` tuples. The run waits until all are ready, and takes none before.

        The run fails with OutOfRangeError if the barrier is closed and has too few tuples.

        Args:
            num_elements: number of tuples.
            allow_small_batch: whether a closed barrier may return fewer, at least one.
            timeout: the longest wait in milliseconds; the run fails with DeadlineExceededError afterwards.
            name: the name of the operation.
            wait_for_incomplete: whether to return fewer only when no key is incomplete any more.
        """

        def build(name: str) -> BarrierTakeMany:
            limit = -1 if timeout is None else timeout
            taken = barriers.barrier_take_many(
                self._ref, num_elements, allow_small_batch, wait_for_incomplete, limit, name
            )
            return BarrierTakeMany(taken[0], taken[1], list(taken[2:]))

        return self._build("take_many", name, build)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the barrier for new keys; incomplete ones can still be completed.

        With `cancel_pending_enqueues` incomplete keys are dropped. Closing twice fails with CancelledError, unless only
        the second one cancels.
        """
        return self._build("close", name, lambda name: barriers.barrier_close(self._ref, cancel_pending_enqueues, name))

    def ready_size(self, name: str | None = None) -> Tensor:
        """Return the number of ready tuples."""
        return self._build("ready_size", name, lambda name: barriers.barrier_ready_size(self._ref, name=name))

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete keys."""
        return self._build("incomplete_size", name, lambda name: barriers.barrier_incomplete_size(self._ref, name=name))
