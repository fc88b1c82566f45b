"""Functions with a user-defined gradient."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from aioflow.autodiff.gradients import gradients
from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity, identity_n
from aioflow.tensors import dtypes

Function = Callable[..., Any]


def custom_gradient(f: Function | None = None) -> Function:
    """Decorator: `f(*tensors)` returns its result and the function that computes its gradients.

        @af.custom_gradient
        def log1pexp(x):
            e = af.exp(x)

            def gradient(dy):
                return dy * (1 - 1 / (1 + e))

            return af.log(1 + e), gradient

    The gradient function takes one gradient per result and returns one per argument, or None. Gradients of gradients
    use the operations it builds. Keyword arguments are passed on and have no gradient. If `f` reads trainable variables
    that are not arguments, the gradient function also takes `variables=`, their list, and returns a pair: the gradients
    of the arguments and of the variables.

    Raises:
        TypeError: `f` reads variables, and its gradient function does not take them.
        ValueError: when gradients are built: their number is not that of the arguments, or of the variables.

    Examples:
        >>> @af.custom_gradient
        ... def clipped(x):
        ...     return x, lambda dy: af.clip_by_value(dy, -1.0, 1.0)
        >>> x = af.constant(2.0)
        >>> await session.run(af.gradients(100.0 * clipped(x), x))
        [np.float32(1.0)]
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def build(*args: Any, **kwargs: Any) -> Any:
        graph = next((a.graph for a in args if isinstance(getattr(a, "graph", None), Graph)), None)
        graph = get_default_graph() if graph is None else graph_to_build_in(graph)
        with graph.transaction(), graph.as_default():
            return _build(graph, f, args, kwargs)

    return build


def _build(graph: Graph, f: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    inputs = [graph.adopt(convert_to_tensor(arg)) for arg in args]
    first = graph.version
    result, gradient = f(*inputs, **kwargs)
    several = isinstance(result, (list, tuple))
    results = [convert_to_tensor(item) for item in (result if several else [result])]
    variables = _variables(graph, results, first)
    if variables and not _takes_variables(gradient):
        names = ", ".join(repr(variable.name) for variable in variables)
        raise TypeError(f"the function reads {names}: its gradient function must take variables=, the list of them")
    outputs = identity_n([*results, *inputs, *(variable.handle for variable in variables)])
    outputs[0].op.gradient_override = _rule(gradient, len(results), len(inputs), variables)
    shown = list(outputs[: len(results)])
    if not several:
        return shown[0]
    return type(result)(*shown) if hasattr(result, "_fields") else type(result)(shown)


def _rule(gradient: Function, results: int, inputs: int, variables: list[Any]) -> Callable[..., list[Any]]:
    def rule(op: Operation, *dys: Tensor | None) -> list[Any]:
        if variables:
            found, of_variables = gradient(*dys[:results], variables=variables)
        else:
            found, of_variables = gradient(*dys[:results]), []
        dxs, dvs = _as_list(found), _as_list(of_variables)
        for what, count, wanted in (("arguments", len(dxs), inputs), ("variables", len(dvs), len(variables))):
            if count != wanted:
                raise ValueError(f"a custom gradient gave {count} gradients for {wanted} {what}")
        return [None] * results + dxs + dvs

    return rule


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _variables(graph: Graph, results: Sequence[Tensor], first: int) -> list[Any]:
    """The trainable variables that operations built from number `first` on read to compute the results."""
    handles: dict[Tensor, None] = {}
    seen: set[Operation] = set()
    waiting = [tensor.op for tensor in results]
    while waiting:
        op = waiting.pop()
        if op.id >= first and op not in seen:
            seen.add(op)
            handles.update(dict.fromkeys(tensor for tensor in op.inputs if tensor.dtype is dtypes.resource))
            waiting.extend(tensor.op for tensor in op.inputs)
    return [v for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) if getattr(v, "handle", None) in handles]


def _takes_variables(function: Function) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def recompute_grad(f: Function) -> Function:
    """Return a function like `f`, whose gradients compute it a second time instead of keeping its intermediate values.

    The memory of these values is free between the forward and the backward pass. `Config(recompute=True)` decides the
    same for a whole step by itself.

    Args:
        f: returns a tensor or a list of tensors. What it computes from arguments and variables is computed again, so it
            should have no state besides.

    Examples:
        >>> x = af.constant(2.0)
        >>> y = af.recompute_grad(lambda x: af.exp(af.square(x)))(x)
        >>> await session.run(af.gradients(y, x))
        [np.float32(218.3926)]
    """

    @custom_gradient
    @functools.wraps(f)
    def built(*args: Tensor, **kwargs: Any) -> Any:
        def gradient(*dys: Tensor, variables: Sequence[Any] = ()) -> Any:
            graph = get_default_graph()
            with graph.control_dependencies([dy for dy in dys if dy is not None]):
                again = [identity(arg) for arg in args]
                results = _as_list(f(*again, **kwargs))
            found = gradients(results, [*again, *variables], list(dys))
            return (found[: len(args)], found[len(args) :]) if variables else found

        return f(*args, **kwargs), gradient

    return built


def grad_pass_through(f: Function) -> Function:
    """Return a function like `f`, whose gradients are those of the identity: that of a result is that of the argument.

    Args:
        f: returns a tensor, or as many tensors as it has arguments.

    Examples:
        >>> x = af.constant(2.6)
        >>> y = af.grad_pass_through(af.round)(x) * 10.0
        >>> await session.run([y, af.gradients(y, x)[0]])
        [np.float32(30.0), np.float32(10.0)]
    """

    @custom_gradient
    @functools.wraps(f)
    def built(*args: Tensor, **kwargs: Any) -> Any:
        def gradient(*dys: Tensor, variables: Sequence[Any] = ()) -> Any:
            return (list(dys), [None] * len(variables)) if variables else list(dys)

        return f(*args, **kwargs), gradient

    return built
