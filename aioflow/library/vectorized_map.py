"""Results of a function for all rows, whose dtypes the function itself decides."""

from collections.abc import Callable
from typing import Any

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.array.shapes import broadcast_to, shape
from aioflow.library.functional import map_fn, rows_of
from aioflow.tensors import nest


class _Undo(Exception):
    """Ends a transaction of the graph, so that nothing that was built in it stays."""


@transactional
def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Stack the results of `fn` for each row of `elems` along a new first axis, in any structure and of any dtypes.

    A value in `elems` with one row has it for all rows of the others. It is `map_fn`, so rows are computed at the same
    time as far as there are threads. `fn` is called twice: first to learn the dtypes of its results, and all that this
    call adds to the graph is removed; then for the loop.

    Args:
        fn: a function of one row, in the structure of `elems`, that returns a nested structure of tensors.
        elems: a tensor, or a nested structure of tensors with equal numbers of rows.
        fallback_to_while_loop: for compatibility.
        warn: for compatibility.

    Raises:
        TypeError: `fn` is not a function.
        ValueError: a value in `elems` has no rows, or numbers of rows differ.

    Examples:
        >>> doubles, totals = af.vectorized_map(lambda x: (2 * x, af.reduce_sum(x)), af.constant([[1, 2], [3, 4]]))
        >>> [value.tolist() for value in await session.run([doubles, totals])]
        [[[2, 4], [6, 8]], [3, 7]]
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r}")
    rows = _with_as_many_rows(elems)
    return map_fn(fn, rows, dtype=_dtypes(fn, rows), name="vectorized_map")


def _with_as_many_rows(elems: Any) -> Any:
    """`elems` as tensors, those of one row repeated as often as another has rows."""
    tensors = [value if _is_composite(value) else convert_to_tensor(value) for value in nest.flatten(elems)]
    counts = [None if _is_composite(value) or not value.shape.ndims else value.shape[0].value for value in tensors]
    most = max((count for count in counts if count is not None), default=1)
    if 1 in counts and most > 1:
        tensors = [
            broadcast_to(value, concat([[most], shape(value)[1:]], 0)) if count == 1 else value
            for value, count in zip(tensors, counts, strict=True)
        ]
    return nest.pack_sequence_as(elems, tensors)


def _is_composite(value: Any) -> bool:
    """Whether it is made of several tensors, and so has no rows."""
    return isinstance(value, (SparseTensor, IndexedSlices))


def _dtypes(fn: Callable[[Any], Any], elems: Any) -> Any:
    """The dtypes of the results of `fn`, in their structure."""
    found: Any = None
    try:
        with get_default_graph().transaction():
            rows_of(elems)  # refuses what has no rows
            results = fn(nest.map_structure(lambda rows: placeholder(rows.dtype, rows.shape[1:]), elems))
            found = nest.map_structure(lambda value: convert_to_tensor(value).dtype, results)
            raise _Undo
    except _Undo:
        return found
