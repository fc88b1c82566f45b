"""Barriers as users hold them."""

from typing import Any, Final, NamedTuple

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import barrier as ops
from aioflow.library.resource_handle import Handle, dtypes_of, outside, shapes_of
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, TensorShape


class BarrierTakeMany(NamedTuple):
    """Tuples taken of a barrier: in which insertion their keys were first seen, the keys, each component stacked."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier(Handle):
    """Puts tuples together whose components come one by one, in any order, under keys.

        barrier = af.Barrier((af.string, af.float32), shapes=((), (2,)))
        insert_names = barrier.insert_many(0, keys, names)
        insert_points = barrier.insert_many(1, keys, points)
        taken = barrier.take_many(10)

    A key is incomplete until each component was inserted; then its tuple is ready, and leaves after those whose keys
    were first seen before it. Taking waits without a thread; cancelling it takes nothing.

    Args:
        types: the dtype of each component.
        shapes: the shape of each component, which is never empty; without them values may have any.
        shared_name: barriers of that name are one, in sessions that share their container.
        name: its name.

    Raises:
        TypeError, ValueError: these do not fit together.
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
        """Its handle."""
        return self._ref

    @property
    def types(self) -> list[DType]:
        """The dtype of each component."""
        return list(self._types)

    @property
    def shapes(self) -> list[TensorShape]:
        """The shape of each component, as far as it is fixed."""
        return list(self._shapes)

    def insert_many(
        self, component_index: int, keys: TensorLike, values: TensorLike, name: str | None = None
    ) -> Operation:
        """An operation that gives each of the `keys` its row of `values` as one component: all of them, or none.

        It fails with InvalidArgumentError if a key has that component already, and with CancelledError if the barrier
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
            num_elements: how many.
            allow_small_batch: of a closed barrier take fewer, if at least one is ready.
            timeout: for how many milliseconds to wait; the run fails with DeadlineExceededError then.
            name: the name of the operation.
            wait_for_incomplete: take fewer only when no key is incomplete any more.
        """

        def build(name: str) -> BarrierTakeMany:
            limit = -1 if timeout is None else timeout
            taken = ops.barrier_take_many(self._ref, num_elements, allow_small_batch, wait_for_incomplete, limit, name)
            return BarrierTakeMany(taken[0], taken[1], list(taken[2:]))

        return self._build("take_many", name, build)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation after which no new key can be inserted, and incomplete ones can be completed.

        With `cancel_pending_enqueues` these are dropped. Closing twice fails with CancelledError, unless the second
        time cancels and the first did not.
        """
        return self._build("close", name, lambda name: ops.barrier_close(self._ref, cancel_pending_enqueues, name))

    def ready_size(self, name: str | None = None) -> Tensor:
        """How many tuples are ready."""
        return self._build("ready_size", name, lambda name: ops.barrier_ready_size(self._ref, name=name))

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many keys lack components."""
        return self._build("incomplete_size", name, lambda name: ops.barrier_incomplete_size(self._ref, name=name))
