"""Random graphs for tests: programs drawn by Hypothesis, built as a graph and known well enough to be checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import aioflow as af

UNARY = ("negative", "tanh", "square", "abs", "exp", "identity", "stop_gradient", "sigmoid", "relu")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
STATE = ("read", "assign", "assign_add", "assign_sub")


@dataclass
class Built:
    """A graph with its feeds and everything that can be fetched or run."""

    graph: af.Graph
    feeds: dict[af.Tensor, Any]
    tensors: list[af.Tensor]
    init: af.Operation


def function(name: str) -> Any:
    """The op of that name, wherever users find it."""
    return getattr(af, name, None) or getattr(af.nn, name)


@st.composite
def built_graphs(
    draw: st.DrawFn, variables: int = 2, size: int = 20, device: Callable[[af.Operation], str] | None = None
) -> Built:
    """A graph of element-wise ops, reductions, matrix products, control edges and operations on variables."""
    graph = af.Graph()
    rows = draw(st.sampled_from([1, 2, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    with graph.as_default(), graph.device(device):
        known = draw(st.booleans())
        inputs = [af.placeholder(af.float32, [rows if known else None, 3]) for _ in range(2)]
        states = [af.Variable(np.full((rows, 3), 0.5 * (i + 1), np.float32)) for i in range(variables)]
        tensors: list[af.Tensor] = [*inputs, af.constant(np.linspace(-1, 1, 3, dtype=np.float32))]
        for _ in range(draw(st.integers(1, size))):
            controls = draw(st.lists(st.sampled_from(tensors), max_size=1))
            with graph.control_dependencies(controls):
                tensors.append(_step(draw, tensors, states))
    feeds = {tensor: rng.standard_normal((rows, 3)).astype(np.float32) for tensor in inputs}
    with graph.as_default():
        init = af.global_variables_initializer()
    return Built(graph, feeds, tensors, init)


def _step(draw: st.DrawFn, tensors: list[af.Tensor], states: list[Any]) -> af.Tensor:
    kind = draw(st.sampled_from(["unary", "binary", "binary", "reduce", "state", "matmul"]))
    x = draw(st.sampled_from(tensors))
    if kind == "unary":
        return function(draw(st.sampled_from(UNARY)))(x)
    if kind == "binary":
        return function(draw(st.sampled_from(BINARY)))(x, draw(st.sampled_from(tensors)))
    if kind == "reduce":
        return af.reduce_sum(x, axis=0) if x.shape.ndims == 2 else af.identity(x)
    if kind == "matmul":
        return af.matmul(x, np.eye(3, dtype=np.float32)) if x.shape.ndims == 2 else af.negative(x)
    return _on_state(draw, draw(st.sampled_from(states)), x)


def _on_state(draw: st.DrawFn, state: Any, x: af.Tensor) -> af.Tensor:
    action = draw(st.sampled_from(STATE))
    if action == "read":
        return state.read_value()
    value = af.tanh(x) + af.zeros(state.shape)
    result = getattr(state, action)(value)
    return af.convert_to_tensor(result)
