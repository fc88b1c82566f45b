"""Rows of several steps, computed together in one of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import prevent_gradient, zeros
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.math.comparison import greater
from aioflow.kernels.state import batching as ops
from aioflow.library.branches import cond
from aioflow.library.resource_handle import Handle, outside
from aioflow.tensors import nest
from aioflow.tensors.recursion import safe_repr

_NO_GRADIENT: Final = "nondifferentiable_batch_function has none; batch_function has one"
_RESULTS: Final = "results"
"""The results of a batch that has only these."""


class BatchQueue(Handle):
    """Gathers the rows of steps that run at the same time into batches, each of which one of these steps gets.

        queue = af.BatchQueue(max_batch_size=64, batch_timeout_micros=2000)
        (rows,), index, id = queue.batch([x])
        (y,) = queue.unbatch([model(rows)], index, id)

    The other steps of a batch get no rows, and their results from the step that got them. If that step fails, theirs
    fail too. `batch_function` is simpler, and goes on without a step that fails.

    Args:
        max_batch_size: the most rows of a batch.
        batch_timeout_micros: the most microseconds for which rows wait for others.
        allowed_batch_sizes: numbers of rows, the last of which is `max_batch_size`. A batch is filled up to the next of
            them by copies of its first row. By default batches have any size.
        max_enqueued_batches: the most batches that wait to begin.
        shared_name: queues of this name are one queue, in sessions that share their container.

    Raises:
        ValueError: a number is too small, or `allowed_batch_sizes` does not increase up to `max_batch_size`.

    Examples:
        >>> queue = af.BatchQueue(max_batch_size=4, batch_timeout_micros=1000)
        >>> x = af.placeholder(af.float32, [None])
        >>> (rows,), index, id = queue.batch([x])
        >>> (y,) = queue.unbatch([rows * 2.0], index, id)
        >>> await asyncio.gather(session.run(y, {x: [1.0]}), session.run(y, {x: [2.0, 3.0]}))
        [array([2.], dtype=float32), array([4., 6.], dtype=float32)]
    """

    @transactional
    def __init__(
        self,
        max_batch_size: int,
        batch_timeout_micros: int,
        allowed_batch_sizes: Sequence[int] | None = None,
        max_enqueued_batches: int = 10,
        shared_name: str | None = None,
    ) -> None:
        sizes = _sizes(allowed_batch_sizes)
        super().__init__(_handle(1, max_batch_size, batch_timeout_micros, sizes, max_enqueued_batches, shared_name))

    def batch(self, tensors: Sequence[TensorLike], name: str | None = None) -> tuple[Sequence[Tensor], Tensor, Tensor]:
        """Return the tensors with the rows of a batch, the places of the steps' rows, and the number of this step's.

        Steps share a batch if their rows have the same shapes. In all steps of a batch but one the tensors have no
        rows. A step waits until its batch begins: it is full, or its oldest rows have waited long enough. A cancelled
        step takes its rows out of a batch that has not begun. The gradient needs that all steps of the batch compute
        it.

        Args:
            tensors: tensors with rows in axis 0, the same number in each.
            name: the name of the operation.

        Raises:
            TypeError, ValueError: they are no tensors, or have no rows.
            af.errors.InvalidArgumentError: in the run, if they have different numbers of rows, or too many.
            af.errors.ResourceExhaustedError: in the run, if too many batches wait.
        """
        *rows, index, id = self._build(
            "batch", name, lambda chosen: ops.batch(self._ref, _tensors(tensors), name=chosen)
        )
        return rows, index, id

    def unbatch(
        self, tensors: Sequence[TensorLike], index: Tensor, id: Tensor, name: str | None = None
    ) -> Sequence[Tensor]:
        """Return the rows of this step of results for a whole batch.

        Steps without the rows of the batch wait for those that the other step computes. If several operations divide
        results of one batch, their names must be the same in all graphs that share the queue.

        Args:
            tensors: results with a row for each row of the batch.
            index: the places of the rows, from `batch`.
            id: the number of this step's rows, from `batch`.
            name: the name of the operation.

        Raises:
            TypeError, ValueError: a tensor has no rows, or `index` and `id` are not those of `batch`.
            af.errors.InvalidArgumentError: in the run, if there are too few rows.
            af.errors.AbortedError: in the run, if the step with the rows ends without these results.
        """
        return _each(
            self._build(
                "unbatch", name, lambda chosen: ops.unbatch(self._ref, index, id, _tensors(tensors), name=chosen)
            )
        )


def batch_function(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Sequence[int] | None = None,
    max_enqueued_batches: int = 10,
    shared_name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function compute the rows of several steps at once.

        @af.batch_function(num_batch_threads=1, max_batch_size=64, batch_timeout_micros=2000)
        def probabilities(images):
            return af.nn.softmax(model(images))

        mine = probabilities(images)

    Steps that run at the same time put the rows of their arguments together, and one of them computes the function. It
    computes what the function uses besides its arguments, too. Each step has the results for its own rows. Rows of
    different shapes are in different batches. Waiting holds no thread.

    A cancelled step takes its rows out of a batch that has not begun. If the step that computes the batch fails or is
    cancelled, each of the others computes its own rows. So an error that one row causes fails the step of that row, and
    the step that computed the batch.

    Args:
        num_batch_threads: the most batches that are computed at the same time.
        max_batch_size: the most rows of a batch.
        batch_timeout_micros: the most microseconds for which rows wait for others.
        allowed_batch_sizes: numbers of rows, the last of which is `max_batch_size`. A batch is filled up to the next of
            them by copies of its first row. By default batches have any size.
        max_enqueued_batches: the most batches that wait to begin; with more, calls fail with ResourceExhaustedError.
        shared_name: calls with this name share batches, also those of sessions that share their container. By default
            each call in the graph has batches of its own.

    Raises:
        TypeError: an argument has another type.
        ValueError: when the function is called: a number is too small, `allowed_batch_sizes` does not increase up to
            `max_batch_size`, or a result has no rows.

    Examples:
        >>> @af.batch_function(num_batch_threads=1, max_batch_size=4, batch_timeout_micros=1000)
        ... def squared(rows):
        ...     return rows * rows
        >>> await session.run(squared(af.constant([1.0, 2.0])))
        array([1., 4.], dtype=float32)
    """
    sizes = _sizes(allowed_batch_sizes)

    def build_handle() -> Tensor:
        return _handle(
            num_batch_threads, max_batch_size, batch_timeout_micros, sizes, max_enqueued_batches, shared_name, held=True
        )

    return functools.partial(_batched, build_handle)


def nondifferentiable_batch_function(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Sequence[int] | None = None,
    max_enqueued_batches: int = 10,
    autograph: bool = True,
    enable_large_batch_splitting: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function compute the rows of several steps at once, as `batch_function` does, without a gradient.

    `af.gradients` through a result raises LookupError.

    Args:
        num_batch_threads: see `batch_function`.
        max_batch_size: see `batch_function`.
        batch_timeout_micros: see `batch_function`.
        allowed_batch_sizes: see `batch_function`.
        max_enqueued_batches: see `batch_function`.
        autograph: without effect: the function builds operations.
        enable_large_batch_splitting: without effect: a call with more rows than a batch has fails.

    Raises:
        TypeError, ValueError: see `batch_function`.

    Examples:
        >>> @af.nondifferentiable_batch_function(1, max_batch_size=4, batch_timeout_micros=1000)
        ... def squared(rows):
        ...     return rows * rows
        >>> await session.run(squared(af.constant([1.0, 2.0])))
        array([1., 4.], dtype=float32)
    """
    decorate = batch_function(
        num_batch_threads, max_batch_size, batch_timeout_micros, allowed_batch_sizes, max_enqueued_batches
    )

    def without_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
        batched = decorate(function)

        @functools.wraps(function)
        @transactional
        def call(*args: TensorLike) -> Any:
            return nest.map_structure(lambda result: prevent_gradient(result, _NO_GRADIENT), batched(*args))

        return call

    return without_gradient


def _batched(build_handle: Callable[[], Tensor], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function on rows of several steps, which each call gathers by a handle of its own."""
    if not callable(function):
        raise TypeError(f"batch_function decorates a function, not {safe_repr(function)}")
    name = getattr(function, "__name__", "").strip("<>_") or "batch"

    @functools.wraps(function)
    @transactional
    def call(*args: TensorLike) -> Any:
        tensors = [convert_to_tensor(arg) for arg in args]
        with get_default_graph().name_scope(name):
            handle = build_handle()
            *rows, index, id = ops.batch(handle, tensors)
            structure, results = _computed_once(function, rows, index)
            return nest.pack_sequence_as(structure, _each(ops.unbatch(handle, index, id, results, _RESULTS)))

    return call


def _with_rows(value: Any) -> Tensor:
    if value is None:
        raise ValueError("the function returns None: it must return tensors with a row for each row of its arguments")
    tensor = convert_to_tensor(value)
    if tensor.spec.rank == 0:
        raise ValueError(f"the function returns a scalar, {tensor.name}, which has no row for each row of a batch")
    return tensor


def _sizes(given: Sequence[int] | None) -> tuple[int, ...]:
    if not isinstance(given, list | tuple | None):
        raise TypeError(f"allowed_batch_sizes must be a list, not {safe_repr(given)}")
    return tuple(given or ())


def _handle(
    threads: int,
    rows: int,
    micros: int,
    sizes: Sequence[int],
    waiting: int,
    shared_name: str | None,
    held: bool = False,
) -> Tensor:
    if not isinstance(shared_name, str | None):
        raise TypeError(f"shared_name must be text, not {safe_repr(shared_name)}")
    with outside() as container:
        return ops.row_batches(
            threads, rows, micros, sizes, waiting, held, container, shared_name or "", name=shared_name or "BatchQueue"
        )


def _computed_once(function: Callable[..., Any], rows: Sequence[Tensor], index: Tensor) -> tuple[Any, list[Tensor]]:
    """Return the structure of the function's result, and its tensors: without rows in steps that have no `index`."""
    structure, made = None, list[Tensor]()

    def compute() -> list[Tensor]:
        nonlocal structure
        structure = function(*rows)
        made.extend(_with_rows(value) for value in nest.flatten(structure))
        return made

    def leave_out() -> list[Tensor]:
        return [zeros([0, *(size or 0 for size in (tensor.spec.sizes or ())[1:])], tensor.dtype) for tensor in made]

    results = cond(greater(shape(index)[0], 0), compute, leave_out, strict=True)
    return structure, results


def _tensors(given: Sequence[TensorLike]) -> list[Tensor]:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"tensors must be a list of tensors, not {safe_repr(given)}")
    return [convert_to_tensor(tensor) for tensor in given]


def _each(made: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [made] if isinstance(made, Tensor) else made
