"""From a `Model` to operations of a graph: a walk over its nodes in their order.

Every name of the model stands for a value in a scope: a tensor, a sequence, or None. The scope of a body inside a node
knows those of the outer graph, too.
"""

import contextlib
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from aioflow import errors
from aioflow.graph.building import get_default_graph, with_text
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.array.partition import ensure_shape
from aioflow.onnx.call import Call, Value
from aioflow.onnx.expansion import check_limits
from aioflow.onnx.functions import bound, definition
from aioflow.onnx.model import Function, GraphBody, Model, Node, ValueType
from aioflow.onnx.registry import find_rule
from aioflow.onnx.signatures import check_inputs

Scope = MutableMapping[str, Value]
"""{name of the model: value}"""


class Builder:
    """Builds nodes of one model in the default graph."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._depth = 0
        self._built = 0

    def run(
        self, nodes: Sequence[Node], scope: Scope, opsets: Mapping[str, int], declared: Mapping[str, ValueType]
    ) -> None:
        """Build the nodes, and put their outputs into the scope, with the sizes that the model declares of them."""
        for node in nodes:
            self._count(1)
            with _named(node):
                outputs = self._node(node, scope, opsets)
                _check_outputs(node, outputs)
                made = {name: value for name, value in zip(node.outputs, outputs, strict=False) if name}
                scope.update((name, _sized(value, declared.get(name))) for name, value in made.items())

    def _count(self, more: int) -> None:
        """InvalidArgumentError if functions call each other without end, or build more than a graph can hold."""
        self._built += more
        check_limits(self._depth, self._built)

    def _node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Sequence[Value]:
        inputs = [scope[name] if name else None for name in node.inputs]
        own = self._model.functions.get((node.domain, node.type, node.overload))
        if own is not None:
            return self._function(own, node, inputs)
        version = opsets[node.domain]
        check_inputs(node, version, inputs)
        rule = find_rule(node.domain, node.type, version)
        if rule is None:
            return self._function(definition(node, version, inputs), node, inputs, opsets)
        made = rule(Call(node, version, lambda body, given: self._body(body, given, scope, opsets)), *inputs)
        return made if isinstance(made, tuple) else (made,)

    def _function(
        self, function: Function, node: Node, inputs: Sequence[Value], opsets: Mapping[str, int] | None = None
    ) -> list[Value]:
        given = {**function.attributes, **node.attributes}
        scope: Scope = dict.fromkeys(function.inputs) | dict(zip(function.inputs, inputs, strict=False))
        self._depth += 1
        self.run(bound(function.nodes, given), scope, {**(opsets or {}), **function.opsets}, {})
        self._depth -= 1
        return [scope.get(name) for name in function.outputs[: len(node.outputs)]]

    def _body(self, body: GraphBody, inputs: Sequence[Value], outer: Scope, opsets: Mapping[str, int]) -> list[Value]:
        """The outputs of a body for these inputs."""
        if len(inputs) > len(body.inputs):
            raise ValueError(f"graph {body.name!r} takes {len(body.inputs)} inputs, not {len(inputs)}")
        self._count(len(body.initializers))
        own: dict[str, Any] = {name: constant(array) for name, array in body.initializers.items()}
        own.update(zip(body.inputs, inputs, strict=False))
        scope = ChainMap(own, outer)
        self.run(body.nodes, scope, opsets, {})
        return [scope[name] for name in body.outputs]


def _check_outputs(node: Node, outputs: Sequence[Value]) -> None:
    """ValueError if the operator lacks an output that the node names."""
    more = [name for name in node.outputs[len(outputs) :] if name]
    if more:
        raise ValueError(f"it has {len(outputs)} outputs, and {more[0]!r} would be number {len(node.outputs)}")


def _sized(value: Value, declared: ValueType | None) -> Value:
    """A tensor with the sizes that the model declares where its nodes leave them open. A run checks them.

    A declaration that contradicts the nodes counts for nothing, as in other runtimes.
    """
    if declared is None or not isinstance(value, Tensor) or value.dtype is not declared.dtype:
        return value
    if not value.shape.is_compatible_with(declared.shape):
        return value
    shape = value.shape.merge_with(declared.shape)
    return value if shape is value.shape else ensure_shape(value, shape)


@contextlib.contextmanager
def _named(node: Node) -> Iterator[None]:
    """Inside, operations get the name of the node, or of its operator; an error gives both."""
    try:
        with get_default_graph().name_scope(valid_name(node.name or node.type)):
            yield
    except (LookupError, ArithmeticError) as error:  # attributes that no check foresees
        raise ValueError(f"node {node.title!r} ({node.operator}): its attributes do not fit: {error}") from error
    except (TypeError, ValueError, errors.UnimplementedError) as error:
        text = str(error)
        if text.startswith("node "):
            raise
        text = f"node {node.title!r} ({node.operator}): {text}"
        made = errors.UnimplementedError(text) if isinstance(error, errors.OpError) else with_text(error, text)
        raise made from error


def valid_name(name: str) -> str:
    """The model's name with "_" in place of all characters that names of operations cannot have."""
    text = re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name).strip("/")
    return text if re.match(r"[A-Za-z0-9.]", text) else f"onnx{text}"
