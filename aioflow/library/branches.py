"""`cond` with its gradient.

The gradient of a `cond` is a `cond` on the same predicate. The forward branches return the tensors that the backward
branches need as further outputs. For the branch that did not run, these are `absent` values, which no operation reads.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.autodiff.backward import differentiate
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import dense
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, BodyGraph, captured_tensors, make_body, trace_body
from aioflow.kernels.control.structured import absent, branch, predicate
from aioflow.kernels.control.tensor_lists import zero_list_like
from aioflow.library.backward_body import BackwardGraph, backward_outline, zeros_for
from aioflow.library.nested_args import Leaves, taken_apart
from aioflow.tensors.dtypes import ListSpec

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
        TypeError: `pred` is Python's bool, not a tensor, or a branch is not a function, or their dtypes differ.
        ValueError: the structures of the results differ.
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
        mine.check_same(theirs, "what true_fn returns", "what false_fn returns")
        outputs = _build_cond(graph, test, (first, made), (second, also_made), scope)
        return mine.rebuilt(outputs)


def _function(what: str, new: Branch | None, old: Branch | None) -> Branch:
    if new is not None and old is not None:
        raise TypeError(f"{what} is given twice, under two names")
    given = new if new is not None else old
    if not callable(given):
        raise TypeError(f"{what} must be a function without arguments, not {given!r}")
    return given


def _result(inner: BodyGraph, function: Branch, strict: bool) -> tuple[Leaves, list[Tensor]]:
    """Return the result of a branch, and its tensors as tensors of the body."""
    result = function()
    if result is None:
        raise ValueError("a branch returns None: it must return tensors, or an operation, or nothing of it would run")
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
