"""`assert_shapes`: the sizes of several tensors, some of which have the same name and so must be equal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.shapes import shape, size
from aioflow.kernels.control.assertions import assert_equal, assert_greater_equal
from aioflow.library.control import group
from aioflow.tensors import dtypes

_REST: Final = (..., "*")
"""Any number of axes, before or after the others."""
_ANY: Final = (None, ".")
"""An axis of any size."""


class _Shown(NamedTuple):
    """What the errors show."""

    data: Sequence[TensorLike] | None
    summarize: int | None
    message: str | None

    def equal(self, x: Tensor, y: Any, text: str) -> Operation:
        note = f"{self.message}: {text}" if self.message else text
        return assert_equal(x, y, self.data, self.summarize, note)

    def at_least(self, x: Tensor, y: int, text: str) -> Operation:
        note = f"{self.message}: {text}" if self.message else text
        return assert_greater_equal(x, y, self.data, self.summarize, note)


@transactional
def assert_shapes(
    shapes: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation: the tensors have these shapes.

        af.debugging.assert_shapes([(x, ("N", "Q")), (y, ("N", "D")), (weights, ("Q",)), (bias, ())])

    Args:
        shapes: pairs of a tensor and its shape. A size is a number, a name, which stands for the same number wherever
            it occurs, or None or "." for any number. `...` or "*", first or last, stands for any further axes.
        data: what an error shows.
        summarize: how many elements of `data` it shows.
        message: how it begins.
        name: the operation's name.

    Raises:
        ValueError: `...` stands between sizes.
        InvalidArgumentError: in the run, or when it is built if the sizes are known by then, if a shape differs.

    Examples:
        >>> x, y = af.placeholder(af.float32), af.placeholder(af.float32)
        >>> check = af.debugging.assert_shapes([(x, ("n", 2)), (y, ("n",))])
        >>> await session.run(check, {x: [[1.0, 2.0]], y: [3.0]})
    """
    pairs = list(shapes.items() if isinstance(shapes, Mapping) else shapes)
    shown = _Shown(data, summarize, message)
    with get_default_graph().name_scope(name or "assert_shapes") as scope:
        found: dict[Any, Tensor] = {}
        checks = [check for value, wanted in pairs for check in _checks(value, _sizes(wanted), found, shown)]
        return group(*checks, name=scope)


def _sizes(wanted: Any) -> list[Any]:
    sizes = list(wanted) if isinstance(wanted, (str, Iterable)) else [wanted]
    if any(size in _REST for size in sizes[1:-1]) or sum(size in _REST for size in sizes) > 1:
        raise ValueError(f"`...` stands once, before or after the sizes, not as in {sizes}")
    return sizes


def _checks(value: Any, wanted: list[Any], found: dict[Any, Tensor], shown: _Shown) -> Iterator[Operation]:
    tensor = value if isinstance(value, SparseTensor) else convert_to_tensor(value)
    sizes = tensor.dense_shape if isinstance(tensor, SparseTensor) else shape(tensor, out_type=dtypes.int64)
    name = getattr(tensor, "name", "the sparse tensor")
    named = [each for each in wanted if each not in _REST]
    rank = shown.equal if len(named) == len(wanted) else shown.at_least
    yield (ranked := rank(size(sizes), len(named), f"the rank, x, of {name} must be y"))
    first = -len(named) if wanted and wanted[0] in _REST else 0
    with get_default_graph().control_dependencies([ranked]):
        for axis, symbol in enumerate(named, first):
            if symbol in _ANY:
                continue
            if not isinstance(symbol, int) and symbol not in found:
                found[symbol] = sizes[axis]
                continue
            meant = symbol if isinstance(symbol, int) else found[symbol]
            yield shown.equal(sizes[axis], meant, f"axis {axis} of {name}, {symbol!r}, has size x and must have y")
