"""`af.gradients` and `af.hessians`: add operations that compute derivatives of ys with respect to xs [P15 section 4.1].

This module checks the arguments and handles branches and loops; the walk from ys back to xs is in `backward`.
"""

import enum
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from aioflow.autodiff import backward
from aioflow.autodiff.aggregate import Gradient, check_method
from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.graph.operation import Tensor
from aioflow.graph.subgraph import BodyGraph
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import ones_like, zeros_like
from aioflow.kernels.array.shapes import reshape
from aioflow.tensors.recursion import without_recursion_error


class UnconnectedGradients(enum.Enum):
    """The result of `gradients` for an x that ys do not depend on.

    Examples:
        >>> x, y = af.constant(1.0), af.constant(2.0)
        >>> zero = af.UnconnectedGradients.ZERO
        >>> await session.run(af.gradients(y, x, unconnected_gradients=zero))
        [np.float32(0.0)]
    """

    NONE = "none"
    ZERO = "zero"


@without_recursion_error
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Return the derivatives of the sum of all elements of `ys` with respect to each of `xs`, in their order.

    A derivative is a Tensor of the shape and dtype of its x, an IndexedSlices if only some rows of x were used, or None
    if ys do not depend on x. It is made of ordinary operations, so it can be differentiated again. For complex x the
    derivative of a real L is dL/dRe(x) + i dL/dIm(x).

    Args:
        ys: a tensor or several.
        xs: a tensor or variable or several. The derivative by a variable includes every read of it.
        grad_ys: the gradient of each of ys, None for ones.
        name: the name scope of the added operations.
        colocate_gradients_with_ops: whether the gradient of an operation runs on the operation's device.
        gate_gradients: whether the gradients of an operation's inputs become available only together.
        aggregation_method: how the gradients of several uses are added: one of AggregationMethod's.
        stop_gradients: tensors to treat as constants, for a partial derivative.
        unconnected_gradients: the result for an x that ys do not depend on: NONE or ZERO.

    Raises:
        LookupError: an operation in between declares neither a gradient nor that it has none.
        TypeError: a complex y has no grad_y, a grad_y has another dtype, or a y or x has no derivative.
        ValueError: grad_ys differ from ys in number or shape, or an operation's gradient does not fit its inputs.

    Examples:
        >>> x = af.constant(3.0)
        >>> await session.run(af.gradients(x * x, x))
        [np.float32(6.0)]
    """
    targets, sources = _as_list(ys), _as_list(xs)
    fixed = [] if stop_gradients is None else _as_list(stop_gradients)
    missing = _unconnected(unconnected_gradients)
    method = check_method(aggregation_method)
    graph = _graph_of([*targets, *sources])
    with graph.transaction(), graph.as_default(), graph.name_scope(name or "gradients"):
        levels = _enclosing_graphs(graph)
        ends = [_resolve(levels, _as_y(y)) for y in targets]
        starts = [_resolve(levels, _as_x(x)) for x in sources]
        stopped = frozenset(_as_x(x) for x in fixed)
        seeds = _seeds(ends, grad_ys)
        options = method, colocate_gradients_with_ops, gate_gradients
        found = _through_bodies(levels, ends, seeds, starts, stopped, options)
        return [zeros_like(x) if g is None and missing is UnconnectedGradients.ZERO else g
                for g, x in zip(found, sources, strict=True)]  # fmt: skip


def _enclosing_graphs(graph: Graph) -> list[Graph]:
    """Return the graph and the graphs around it, innermost first."""
    return [graph, *(_enclosing_graphs(graph.outer) if isinstance(graph, BodyGraph) else [])]


def _resolve(levels: Sequence[Graph], tensor: Tensor) -> Tensor:
    """Return the tensor, captured if it is not from one of the levels. ValueError if it belongs to another graph."""
    return tensor if tensor.graph in levels else levels[0].adopt(tensor)


def _captures(graph: Graph) -> dict[Tensor, Tensor]:
    return graph.captures if isinstance(graph, BodyGraph) else {}


def _through_bodies(
    levels: Sequence[Graph], ys: Sequence[Tensor], seeds: Sequence[Gradient], xs: Sequence[Tensor], stopped: Any,
    options: Sequence[Any],
) -> list[Gradient | None]:  # fmt: skip
    """Build the gradients of `xs` in the first of `levels`, following captured tensors into the graphs around."""
    starts = _start_tensors(levels, ys, xs, stopped)
    arrived = list(zip(ys, seeds, strict=True))
    found: dict[Tensor, Gradient | None] = {}
    for level in levels:
        mine = [(y, seed) for y, seed in arrived if y.graph is level]
        ends, given = [y for y, _ in mine], [seed for _, seed in mine]
        made = backward.differentiate(levels[0], ends, list(starts[level]), given, stopped, *options)
        for (start, outside), dx in zip(starts[level].items(), made, strict=True):
            if outside is None:
                found[start] = dx
            elif dx is not None:
                arrived.append((outside, dx))
    return [found.get(x) for x in xs]


def _start_tensors(
    levels: Sequence[Graph], ys: Sequence[Tensor], xs: Sequence[Tensor], stopped: Any
) -> dict[Graph, dict[Tensor, Tensor | None]]:
    """Return, by level, the tensors to differentiate by: xs with None, and captures with their captured tensors."""
    ends = [*ys, *[tensor for level in levels for tensor in (*_captures(level), *_first_values(level).values())]]
    reached: set[Tensor] = set()
    found: dict[Graph, dict[Tensor, Tensor | None]] = {}
    for level in reversed(levels):
        inside = {made: outside for outside, made in _captures(level).items() if outside in reached}
        found[level] = {**inside, **dict.fromkeys(x for x in xs if x.graph is level)}
        here = [end for end in ends if end.graph is level]
        _check_loop_variables(level, here, reached, stopped)
        reached |= backward.tensors_reaching(list(found[level]), here, stopped)
    return found


def _check_loop_variables(
    level: Graph, ys: Sequence[Tensor], reached: Collection[Tensor], stopped: Collection[Tensor]
) -> None:
    """Raise ValueError if, inside a loop, a gradient would have to flow through earlier iterations."""
    carried = [made for made, first in _first_values(level).items() if first in reached and made not in stopped]
    through = backward.tensors_reaching(carried, ys, stopped)
    for y in ys:
        if carried and y in through:
            raise ValueError(
                f"inside a loop {y.name!r} depends on xs through a loop variable, and so through earlier "
                "iterations: take the gradient outside of the loop, or put the variable in stop_gradients"
            )


def _first_values(graph: Graph) -> dict[Tensor, Tensor]:
    return graph.starts if isinstance(graph, BodyGraph) else {}


@without_recursion_error
def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Return the second derivatives of the sum of `ys` with respect to each of `xs`, of shape [*x.shape, *x.shape].

    Adds one gradient of the gradient for each element of x.

    Raises:
        ValueError: the shape of an x is not fully known.

    Examples:
        >>> x = af.constant(2.0)
        >>> await session.run(af.hessians(x * x * x, x))
        [np.float32(12.0)]
    """
    sources = _as_list(xs)
    options = (colocate_gradients_with_ops, gate_gradients, aggregation_method)
    graph = _graph_of([*_as_list(ys), *sources])
    with graph.transaction(), graph.as_default(), graph.name_scope(name or "hessians"):
        first = gradients(ys, sources, None, "gradients", *options, unconnected_gradients=UnconnectedGradients.ZERO)
        return [_hessian(g, x, options) for g, x in zip(first, sources, strict=True)]


def _hessian(gradient: Gradient, x: Any, options: tuple[bool, bool, int | None]) -> Tensor:
    count = x.shape.num_elements()
    if count is None:
        raise ValueError(f"a Hessian needs an x of fully known shape, not {x!r}")
    flat = reshape(dense(gradient), [-1])
    sizes = [*x.shape.as_list(), *x.shape.as_list()]
    rows = []
    for index in range(count):
        (row,) = gradients(flat[index], x, None, "row", *options, unconnected_gradients=UnconnectedGradients.ZERO)
        rows.append(dense(row))
    return reshape(stack(rows) if rows else flat, sizes)


# Arguments


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _unconnected(value: UnconnectedGradients | str) -> UnconnectedGradients:
    try:
        return UnconnectedGradients(value)
    except ValueError:
        raise ValueError(f"unconnected_gradients is 'none' or 'zero', not {value!r}") from None


def _graph_of(values: Iterable[Any]) -> Graph:
    graphs = (getattr(value, "graph", None) for value in values)
    found = next((graph for graph in graphs if isinstance(graph, Graph)), None)
    return get_default_graph() if found is None else graph_to_build_in(found)


def _as_y(y: Any) -> Tensor:
    if isinstance(y, (str, bytes)):
        raise TypeError(f"gradients are taken of tensors and variables, not {y!r}")
    return convert_to_tensor(y)


def _as_x(x: Any) -> Tensor:
    """Return `x` as a tensor; a variable as its handle."""
    tensor = getattr(x, "handle", x)
    tensor = tensor.values if isinstance(tensor, IndexedSlices) else tensor
    if not isinstance(tensor, Tensor):
        raise TypeError(f"gradients are taken with respect to tensors and variables, not {x!r}")
    return tensor


def _seeds(ys: Sequence[Tensor], given: Any) -> list[Gradient]:
    grad_ys = [None] * len(ys) if given is None else _as_list(given)
    if len(grad_ys) != len(ys):
        raise ValueError(f"{len(grad_ys)} grad_ys were given for {len(ys)} ys")
    return [_ones(index, y) if g is None else _seed(index, y, g)
            for index, (y, g) in enumerate(zip(ys, grad_ys, strict=True))]  # fmt: skip


def _ones(index: int, y: Tensor) -> Tensor:
    if y.dtype.is_complex:
        raise TypeError(f"the gradient of a complex tensor needs grad_ys: {y!r}")
    if not y.dtype.is_numeric:
        raise TypeError(f"{y!r} of dtype {y.dtype.name} has no gradient")
    return ones_like(y, name=f"grad_ys_{index}")


def _seed(index: int, y: Tensor, given: TensorLike | IndexedSlices) -> Gradient:
    expected = backward.gradient_spec(y)
    label = f"grad_ys[{index}]"
    if not isinstance(given, (Tensor, IndexedSlices)):
        try:
            given = convert_to_tensor(given, None if expected is None else expected.dtype, name=f"grad_ys_{index}")
        except (TypeError, ValueError) as error:
            raise type(error)(f"{label}: {error}") from error
    if expected is not None and given.dtype is not expected.dtype:
        raise TypeError(f"{label} has dtype {given.dtype.name}, and {y!r} has {expected.dtype.name}")
    if expected is not None and not given.shape.is_compatible_with(expected.shape):
        raise ValueError(f"{label} has shape {given.shape}, and {y!r} has {expected.shape}")
    return given
