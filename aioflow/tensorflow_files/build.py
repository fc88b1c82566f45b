"""From nodes of TensorFlow to operations: a walk over the nodes in their order.

Each output of a node stands for a tensor, a `Reference` to a variable, or None. A function is built anew wherever it
is called, under the name of its caller.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aioflow import errors
from aioflow.graph.building import get_default_graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity, identity_n
from aioflow.library.control import group
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.nodes import Function, Node, Nodes, Source
from aioflow.tensorflow_files.ordering import is_back_edge, origin, sorted_nodes
from aioflow.tensorflow_files.references import Reference, Value, value_of
from aioflow.tensorflow_files.registry import OPERATORS, Rule

_ANY = Rule(lambda: None)


class Scope:
    """The values of one graph or of one call of a function.

    Attributes:
        prefix: the scope of its operations.
        nodes: the nodes that it has.
        values: the outputs of nodes that are built.
        done: the operation of each node that has one, for control dependencies.
    """

    def __init__(self, prefix: str, nodes: Nodes, values: Mapping[str, Sequence[Value]]) -> None:
        self.prefix = prefix
        self.nodes = nodes
        self.values: dict[str, Sequence[Value]] = {**values}
        self.done: dict[str, Operation] = {}

    def value(self, source: Source) -> Value:
        """The output of a node. ValueError if there is none."""
        outputs = self.values[source.node]
        place = source.place + (self._first(source) if source.result else 0)
        if place >= len(outputs) or outputs[place] is None:
            raise ValueError(f"{source.node!r} has no output {source.result or place}")
        return outputs[place]

    def _first(self, source: Source) -> int:
        """The number of the first output of a result."""
        node = self.nodes.get(source.node)
        results = OPERATORS.get(node.op, _ANY).results if node is not None else ()
        if source.result in results:
            return results.index(source.result)
        if len(results) < 2:
            return 0
        raise ValueError(f"{source.node!r} has no result {source.result!r}, but {', '.join(results)}")


class Builder:
    """Builds the nodes of a graph and of the functions that it calls."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    def run(self, scope: Scope, mapped: Mapping[tuple[str, int], Tensor]) -> None:
        """Build the nodes of a scope, with some tensors in the place of outputs."""
        for node in sorted_nodes(scope.nodes, scope.values):
            with _located(node):
                self._node(node, scope, mapped)
        self._close_loops(scope)

    def _node(self, node: Node, scope: Scope, mapped: Mapping[tuple[str, int], Tensor]) -> None:
        graph, name = get_default_graph(), scope.prefix + node.name.replace(">", "_")
        waits = [scope.done[each] for each in node.controls if each in scope.done]
        with graph.name_scope(f"{name}/parts/"), graph.control_dependencies(waits):
            made = self._build(node, f"{name}/", scope, mapped)
            outputs, done = _named(made, name)
        for place in range(len(outputs)):
            outputs[place] = mapped.get((node.name, place), outputs[place])
        scope.values[node.name] = outputs
        if done is not None:
            scope.done[node.name] = done

    def _build(self, node: Node, name: str, scope: Scope, mapped: Mapping[tuple[str, int], Tensor]) -> Any:
        rule = OPERATORS.get(node.op)
        inputs = [self._input(node, source, scope, rule) for source in node.inputs]
        if rule is None:
            return self._call(self._functions[node.op], inputs)
        call = Call(node, name, self._called, self._invariant)
        return rule.build(call, *inputs)

    def _input(self, node: Node, source: Source, scope: Scope, rule: Rule | None) -> Value:
        if source.node not in scope.values and is_back_edge(scope.nodes, source.node, node):
            return None
        found = scope.value(source)
        return found if rule is None or rule.references else value_of(found)

    def _called(self, name: str, inputs: Sequence[Value]) -> list[Value] | Operation:
        if name not in self._functions:
            raise ValueError(f"it calls {name!r}, which is no function of the graph")
        return self._call(self._functions[name], inputs)

    def _call(self, function: Function, inputs: Sequence[Value]) -> list[Value] | Operation:
        """The results of a function for these inputs; an operation if it has none."""
        if len(inputs) != len(function.arguments):
            raise ValueError(f"{function.name!r} takes {len(function.arguments)} inputs, not {len(inputs)}")
        values = {name: [value] for name, value in zip(function.arguments, inputs, strict=True)}
        with get_default_graph().name_scope("call") as prefix:
            scope = Scope(prefix, function.nodes, values)
            self.run(scope, {})
            results = [scope.value(source) for source in function.results]
            waits = [scope.done[name] for name in function.controls if name in scope.done]
            return _after(waits, results)

    def _invariant(self, name: str) -> Sequence[bool]:
        """Which arguments of a function are its results at the same places."""
        function = self._functions[name]
        pairs = zip(function.arguments, function.results, strict=False)
        return [origin(function.nodes, result).node == argument for argument, result in pairs]

    def _close_loops(self, scope: Scope) -> None:
        """Connect each merge to the next iteration, which is there now."""
        for node in scope.nodes.values():
            for place, source in enumerate(node.inputs):
                if is_back_edge(scope.nodes, source.node, node):
                    merge, back = scope.values[node.name][0], value_of(scope.value(source))
                    with _located(node):
                        if merge is None or not isinstance(merge, Tensor) or back is None:
                            raise ValueError("its loop carries a value that aioflow does not have")
                        merge.op.update_input(place, back)


def _after(waits: Sequence[Operation], results: list[Value]) -> list[Value] | Operation:
    """The results once these operations are done; where there are none, an operation."""
    if not results:
        return group(*waits)
    if not waits:
        return results
    with get_default_graph().control_dependencies(waits):
        return [identity(each) if isinstance(each, Tensor) else each for each in results]


def _named(made: Any, name: str) -> tuple[list[Value], Operation | None]:
    """The outputs of a node, and its operation: the one that has its name."""
    if isinstance(made, Operation):
        return [], made
    outputs: list[Value] = [*made] if isinstance(made, (tuple, list)) else [made]
    tensors = [each for each in outputs if isinstance(each, Tensor)]
    if not outputs or not tensors:
        return outputs, outputs[0].operation if outputs and isinstance(outputs[0], Reference) else None
    if all(each.op.name == name for each in tensors):
        return outputs, tensors[0].op
    count = len(tensors)
    if count == 1:
        outputs[outputs.index(tensors[0])] = identity(tensors[0], name=f"{name}/")
    else:
        outputs[:count] = identity_n(tensors, name=f"{name}/")
    named = next(each for each in outputs if isinstance(each, Tensor)).op
    if named.name != name:
        raise ValueError(f"the graph has an operation {name!r} already; choose another name scope")
    return outputs, named


@contextlib.contextmanager
def _located(node: Node) -> Iterator[None]:
    """Inside, an error names the node and its op."""
    try:
        yield
    except (LookupError, ArithmeticError, TypeError, ValueError, errors.UnimplementedError) as error:
        text = str(error)
        if text.startswith("node "):
            raise
        text = f"node {node.name!r} ({node.op}): {text}"
        raise _like(error, text) from error


def _like(error: Exception, text: str) -> Exception:
    """An error of the same kind with another text. What attributes cause that no check foresees is a ValueError."""
    if isinstance(error, errors.OpError):
        return errors.UnimplementedError(text)
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)
