"""Handles of barriers."""

from typing import Any, Final, NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import barrier as ops
from aioflow.library.resource_handle import Handle, dtypes_of, outside, shapes_of
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape


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
    """

    @transactional
    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types: Final = dtypes_of(types)
        self._shapes: Final = shapes_of(shapes, len(self._types))
        with outside() as container:
            ref = ops.barrier(self._types, self._shapes, container=container, shared_name=shared_name or "", name=name)
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
            return ops.barrier_insert_many(self._ref, *given, component_index, name)

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
            taken = ops.barrier_take_many(self._ref, num_elements, allow_small_batch, wait_for_incomplete, limit, name)
            return BarrierTakeMany(taken[0], taken[1], list(taken[2:]))

        return self._build("take_many", name, build)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the barrier for new keys; incomplete ones can still be completed.

        With `cancel_pending_enqueues` incomplete keys are dropped. Closing twice fails with CancelledError, unless only
        the second one cancels.
        """
        return self._build("close", name, lambda name: ops.barrier_close(self._ref, cancel_pending_enqueues, name))

    def ready_size(self, name: str | None = None) -> Tensor:
        """Return the number of ready tuples."""
        return self._build("ready_size", name, lambda name: ops.barrier_ready_size(self._ref, name=name))

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete keys."""
        return self._build("incomplete_size", name, lambda name: ops.barrier_incomplete_size(self._ref, name=name))
