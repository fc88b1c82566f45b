"""`cond` with its gradient, and `case` and `switch_case` by nested `cond`s, which test about log2(n) of n branches.

The gradient of a `cond` is a `cond` on the same predicate. The forward branches return the tensors that the backward
branches need as further outputs. For the branch that did not run, these are `absent` values, which no operation reads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioflow.autodiff.backward import differentiate
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import dense
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, BodyGraph, captured_tensors, make_body, trace_body
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import identity
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.control.structured import absent, branch, predicate
from aioflow.kernels.control.tensor_lists import zero_list_like
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less, less_equal, logical_and, logical_or
from aioflow.kernels.math.reduction import reduce_any, reduce_sum
from aioflow.library.backward_body import BackwardGraph, backward_outline, zeros_for
from aioflow.library.loops import Leaves, taken_apart
from aioflow.tensors.dtypes import ListSpec, int32

Branch = Callable[[], Any]


@transactional
def cond(
    pred: TensorLike,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """Return the result of `true_fn` if `pred` is true in the run, else that of `false_fn`.

    Both functions are called once, now, to build the branches; a run computes only one of them. They may use all
    tensors of enclosing graphs, and must return the same structure of tensors with the same dtypes. An operation in it
    stands for a bool that is available when it is done.

    Args:
        pred: one bool.
        true_fn: a function without arguments.
        false_fn: a function without arguments.
        strict: whether a list of one element stays a list; else it stands for the element.
        name: the name of the operation.
        fn1: an older name of `true_fn`.
        fn2: an older name of `false_fn`.

    Raises:
        TypeError: `pred` is Python's bool, not a tensor, or a branch is not a function.
        ValueError: the structures or the dtypes of the results differ.

    Examples:
        >>> await session.run(af.cond(af.constant(3) > 2, lambda: af.constant("more"), lambda: af.constant("less")))
        b'more'
    """
    if isinstance(pred, bool):
        raise TypeError(f"pred is {pred}, known now: it must be a tensor; use Python's `if` for a known value")
    then, otherwise = _function("true_fn", true_fn, fn1), _function("false_fn", false_fn, fn2)
    test = convert_to_tensor(pred)
    predicate(test.spec, "pred")
    graph = get_default_graph()
    with graph.name_scope(name or "cond") as scope:
        first, (mine, made) = trace_body(graph, f"{scope}true", lambda inner: _result(inner, then, strict))
        second, (theirs, also_made) = trace_body(
            graph, f"{scope}false", lambda inner: _result(inner, otherwise, strict)
        )
        mine.check_same(theirs, "what true_fn returns", "what false_fn returns", ValueError)
        outputs = _build_cond(graph, test, (first, made), (second, also_made), scope)
        return mine.rebuilt(outputs)


def _function(what: str, new: Branch | None, old: Branch | None) -> Branch:
    if new is not None and old is not None:
        raise TypeError(f"{what} is given by two names")
    given = new if new is not None else old
    if not callable(given):
        raise TypeError(f"{what} must be a function without arguments, not {given!r}")
    return given


def _result(inner: BodyGraph, function: Branch, strict: bool) -> tuple[Leaves, list[Tensor]]:
    """Return the result of a branch, and its tensors as tensors of the body."""
    result = function()
    if result is None:
        raise ValueError("a branch returns None: it must return tensors or an operation, which the branch then runs")
    if not strict and isinstance(result, (list, tuple)) and len(result) == 1:
        result = result[0]
    leaves = taken_apart(result)
    return leaves, [inner.adopt(tensor) for tensor in leaves.tensors]


def _build_cond(graph: Graph, pred: Tensor, *sides: Any) -> Sequence[Tensor]:
    """Build a `cond` of two bodies with their outputs, and return its outputs; the last argument is the name."""
    (first, made), (second, also_made), name = sides
    inputs = captured_tensors(first, second)
    places = {tensor: 1 + index for index, tensor in enumerate(inputs)}
    bodies = make_body(first, (), places, made), make_body(second, (), places, also_made)
    waits_for = dict.fromkeys([*first.waits_for, *second.waits_for])
    with graph.control_dependencies(waits_for):
        result: Sequence[Tensor] | Operation = branch(pred, inputs, *bodies, name=name)
    return () if isinstance(result, Operation) else result


# The gradient


branch.gradient_takes_none = True


@branch.gradient
def _(op: Operation, *dys: Tensor | None) -> list[Tensor | None]:
    sides = [_backward(op, which, dys) for which in ("then", "otherwise")]
    used = [i for i in range(1, len(op.inputs)) if any(found[i] is not None for _, found in sides)]
    results: list[Tensor | None] = [None] * len(op.inputs)
    if used:
        completed = [(inner, _complete_gradients(inner, op, found, used)) for inner, found in sides]
        made = _build_cond(get_default_graph(), op.inputs[0], *completed, None)
        for index, tensor in zip(used, made, strict=True):
            results[index] = tensor
    return results


Side = tuple[BackwardGraph, list[Tensor | None]]
"""The backward body of a branch, and the gradient or None for each input of the `cond`."""


def _backward(op: Operation, which: str, dys: Sequence[Tensor | None]) -> Side:
    body: Body = op.attrs[which]
    graph = get_default_graph()
    return backward_outline(graph, op, body, _OutputAdder(op, which), which, lambda inner: _side(inner, op, body, dys))


def _side(inner: BackwardGraph, op: Operation, body: Body, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients of those inputs of `op` that a branch uses."""
    live = [index for index, dy in enumerate(dys) if dy is not None]
    ys = [body.outputs[index] for index in live]
    seeds = [inner.adopt(dys[index]) for index in live]  # type: ignore[arg-type]
    found: list[Tensor | None] = [None] * len(op.inputs)
    for index, dx in zip(body.takes, differentiate(inner, ys, body.arguments, seeds), strict=True):
        found[index] = None if dx is None else dense(dx)
    return found


def _complete_gradients(
    inner: BackwardGraph, op: Operation, found: list[Tensor | None], used: list[int]
) -> list[Tensor]:
    """Return one gradient for each input that has one in either branch."""
    with inner.again():
        return [dx if (dx := found[i]) is not None else zeros_for(op.inputs[i]) for i in used]


class _OutputAdder:
    """Adds outputs to a `cond` for tensors inside a branch."""

    def __init__(self, op: Operation, which: str) -> None:
        self._op = op
        self._which = which
        self._other = "otherwise" if which == "then" else "then"

    def __call__(self, tensor: Tensor) -> Tensor:
        """Return the output of the `cond` that equals `tensor` if this branch runs."""
        attrs = self._op.attrs
        other: Body = attrs[self._other]
        spec = tensor.spec
        with other.graph.building(""):
            filler = zero_list_like(tensor) if isinstance(spec, ListSpec) else absent(spec.dtype, spec.shape)
        changed = {
            **attrs,
            self._which: attrs[self._which].with_outputs(tensor),
            self._other: other.with_outputs(filler),
        }
        return self._op.graph.extend(self._op, changed, [spec])[0]


Pair = tuple[Tensor, Branch]


@transactional
def case(
    pred_fn_pairs: Sequence[Any] | Mapping[Any, Branch],
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the function of the first true predicate, or that of `default` if none is true.

        y = af.case([(x < 0, lambda: -x), (x < 1, lambda: x * x)], default=lambda: 2 * x - 1)

    Each function is called once, now, to build its branch, as with `cond`; all return the same structure of tensors
    with the same dtypes.

    Args:
        pred_fn_pairs: pairs of a bool tensor and a function without arguments, or a dict, tested in its order.
        default: a function without arguments for the case that no predicate is true.
        exclusive: whether it is an error if more than one predicate is true.
        strict: whether a list of one element stays a list; else it stands for the element.
        name: the name of the operations' scope.

    Raises:
        TypeError: a pair is not a bool tensor and a function.
        ValueError: there are no pairs, or the structures or dtypes that the branches return differ.
        InvalidArgumentError: in the run, if no predicate is true and there is no `default`, or with `exclusive` more
            than one is.

    Examples:
        >>> await session.run(af.case([(af.constant(False), lambda: af.constant(1))], default=lambda: af.constant(2)))
        np.int32(2)
    """
    pairs = _pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError(f"default must be a function without arguments, not {default!r}")
    graph = get_default_graph()
    with graph.name_scope(name or "case"):
        checks = _checks([pred for pred, _ in pairs], default is None, exclusive)
        with graph.control_dependencies(checks):
            if len(pairs) == 1 and default is None:
                return _alone(pairs[0][1], strict)
            return _chosen(pairs, default, strict)


def _pairs(given: Any) -> list[Pair]:
    items = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(items, (list, tuple)):
        raise TypeError(f"pred_fn_pairs must be a list of pairs or a dict, not {given!r}")
    if not items:
        raise ValueError("pred_fn_pairs is empty: give at least one pair of a predicate and a function")
    return [_pair(index, item) for index, item in enumerate(items)]


def _pair(index: int, item: Any) -> Pair:
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise TypeError(f"pred_fn_pairs[{index}] must be a pair of a predicate and a function, not {item!r}")
    pred, function = item
    if isinstance(pred, bool):
        raise TypeError(f"the predicate of pred_fn_pairs[{index}] is {pred}, known now: it must be a tensor")
    if not callable(function):
        raise TypeError(f"pred_fn_pairs[{index}] must have a function without arguments, not {function!r}")
    test = convert_to_tensor(pred)
    predicate(test.spec, f"the predicate of pred_fn_pairs[{index}]")
    return test, function


def _checks(preds: list[Tensor], some: bool, exclusive: bool) -> list[Operation]:
    """Return assertions that one of the predicates is true and, if `exclusive`, only one."""
    if not (some or exclusive):
        return []
    values = stack(preds)
    checks: list[Operation] = []
    if some:
        checks.append(Assert(reduce_any(values), ["no predicate is true, and there is no default:", values]))
    if exclusive:
        single = less_equal(reduce_sum(cast(values, int32)), 1)
        checks.append(Assert(single, ["more than one predicate is true, though exclusive=True:", values]))
    return checks


def _alone(function: Branch, strict: bool) -> Any:
    """Return the result of the only branch, copied so that the checks run before it."""
    result = function()
    if not strict and isinstance(result, (list, tuple)) and len(result) == 1:
        result = result[0]
    parts = taken_apart(result)
    return parts.rebuilt([identity(tensor) for tensor in parts.tensors])


def _chosen(pairs: Sequence[Pair], default: Branch | None, strict: bool) -> Any:
    """Return the result of the first branch with a true predicate. Without a default one of them must be true."""
    (pred, function), *others = pairs
    if not others:
        return function() if default is None else cond(pred, function, default, strict)
    half = len(pairs) // 2
    first, rest = pairs[:half], pairs[half:]
    return cond(_any(first), lambda: _chosen(first, None, strict), lambda: _chosen(rest, default, strict), strict)


def _any(pairs: Sequence[Pair]) -> Tensor:
    found = pairs[0][0]
    for pred, _ in pairs[1:]:
        found = logical_or(found, pred)
    return found


@transactional
def switch_case(
    branch_index: Tensor,
    branch_fns: Sequence[Any] | Mapping[int, Branch],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """Return the result of the function of an index that the run knows, or that of `default` for other indices.

        y = af.switch_case(kind, [lambda: x, lambda: x * x, lambda: af.exp(x)])

    Each function is called once, now, to build its branch, as with `cond`; all return the same structure of tensors
    with the same dtypes.

    Args:
        branch_index: one integer.
        branch_fns: functions without arguments: a list, or a dict or pairs of an index and a function, whose indices
            count from 0 without a gap.
        default: a function without arguments for any other index; by default that of the highest index.
        name: the name of the operations' scope.

    Raises:
        TypeError: the index is no integer tensor, or a branch is no function.
        ValueError: there are no functions, the indices have a gap, or the structures or dtypes that they return differ.

    Examples:
        >>> await session.run(af.switch_case(af.constant(1), [lambda: af.constant("a"), lambda: af.constant("b")]))
        b'b'
    """
    if isinstance(branch_index, int):
        raise TypeError(f"branch_index is {branch_index}, known now: it must be a tensor")
    index = convert_to_tensor(branch_index)
    if not index.dtype.is_integer:
        raise TypeError(f"branch_index must be an integer, its dtype is {index.dtype.name}")
    if index.spec.rank not in (None, 0):
        raise ValueError(f"branch_index must be one integer, its shape is {index.shape}")
    functions = _functions(branch_fns)
    if default is not None and not callable(default):
        raise TypeError(f"default must be a function without arguments, not {default!r}")
    with get_default_graph().name_scope(name or "switch_case"):
        inside = logical_and(less_equal(0, index), less(index, len(functions)))
        otherwise = functions[-1] if default is None else default
        return cond(inside, lambda: _select_branch(index, 0, functions), otherwise)


def _functions(given: Any) -> list[Branch]:
    """The functions by index."""
    items = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(items, (list, tuple)):
        raise TypeError(f"branch_fns must be a list of functions or a dict, not {given!r}")
    if not items:
        raise ValueError("branch_fns is empty: give at least one function")
    pairs = list(enumerate(items)) if all(callable(item) for item in items) else items
    for item in pairs:
        if not isinstance(item, (list, tuple)) or len(item) != 2 or not callable(item[1]):
            raise TypeError(
                f"branch_fns must be functions without arguments, or pairs of an index and one, not {item!r}"
            )
    found = dict(pairs)
    if len(found) < len(pairs) or set(found) != set(range(len(pairs))):
        indices = [index for index, _ in pairs]
        raise ValueError(
            f"the indices of branch_fns must be those from 0 to {len(pairs) - 1}, each once, not {indices}"
        )
    return [found[index] for index in range(len(pairs))]


def _select_branch(index: Tensor, first: int, functions: list[Branch]) -> Any:
    """The result of the function of this index, if `first` is the index of the first function."""
    if len(functions) == 1:
        return functions[0]()
    half = len(functions) // 2
    return cond(
        less(index, first + half),
        lambda: _select_branch(index, first, functions[:half]),
        lambda: _select_branch(index, first + half, functions[half:]),
    )
