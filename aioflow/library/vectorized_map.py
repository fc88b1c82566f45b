"""Results of a function for all rows, whose dtypes the function itself decides."""

from collections.abc import Callable
from typing import Any

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.kernels.array.gather import gather
from aioflow.library.functional import map_fn, rows_of
from aioflow.tensors import nest


class _Undo(Exception):
    """Ends a transaction of the graph, so that nothing that was built in it stays."""


@transactional
def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Stack the results of `fn` for each row of `elems` along a new first axis, in any structure and of any dtypes.

    It is `map_fn`, so rows are computed at the same time as far as there are threads. `fn` is called twice: first to
    learn the dtypes of its results, and all that this call adds to the graph is removed; then for the loop.

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
    return map_fn(fn, elems, dtype=_dtypes(fn, elems), name="vectorized_map")


def _dtypes(fn: Callable[[Any], Any], elems: Any) -> Any:
    """The dtypes of the results of `fn`, in their structure."""
    found: Any = None
    try:
        with get_default_graph().transaction():
            rows_of(elems)  # refuses what has no rows
            results = fn(nest.map_structure(lambda rows: gather(rows, 0), elems))
            found = nest.map_structure(lambda value: convert_to_tensor(value).dtype, results)
            raise _Undo
    except _Undo:
        return found
