"""`case` and `switch_case`: more than two branches, by nested `cond`s.

Each `cond` halves the remaining branches: with n branches, a run tests about log2(n) times.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import stack
from aioflow.kernels.array.constants import identity
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.control.structured import predicate
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import less, less_equal, logical_and, logical_or
from aioflow.kernels.math.reduction import reduce_any, reduce_sum
from aioflow.library.branches import cond
from aioflow.library.nested_args import taken_apart
from aioflow.tensors.dtypes import int32

Branch = Callable[[], Any]
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
        TypeError: a pair is not a bool tensor and a function, or the dtypes of the branches differ.
        ValueError: there are no pairs, or the structures that the branches return differ.
        InvalidArgumentError: in the run, if no predicate is true and there is no `default`, or with `exclusive` more
            than one is.
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
        TypeError: the index is no integer tensor, a branch is no function, or dtypes differ.
        ValueError: there are no functions, the indices have a gap, or the structures that they return differ.
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
