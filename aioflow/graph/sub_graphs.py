"""Parts of a GraphDef: below a name scope, what some operations need, without operations that only training needs."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.graph import Graph
from aioflow.graph.graphdef import BodyDef, GraphDef, NodeDef, parse_source
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation
from aioflow.tensors.dtypes import DeviceKind, DType, TensorShape, string
from aioflow.tensors.recursion import safe_repr

_PASSING_ON: Final = frozenset({"identity", "check_numerics"})


def check_graph_def(value: object) -> GraphDef:
    """Return the value. TypeError if it is no GraphDef."""
    if not isinstance(value, GraphDef):
        raise TypeError(f"a GraphDef is needed, such as graph.as_graph_def(), not {safe_repr(value)}")
    return value


def extract_sub_graph(graph_def: GraphDef, dest_nodes: Sequence[str]) -> GraphDef:
    """Return the operations that these need, and these, in the order of the GraphDef.

    Args:
        graph_def: the operations.
        dest_nodes: the names of operations.

    Raises:
        TypeError: an argument is something else.
        ValueError: the GraphDef lacks one of these, or an operation that one needs.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     y = af.square(af.constant(3.0, name="x"), name="y")
        ...     z = af.negative(y, name="z")
        >>> [node.name for node in af.graph_util.extract_sub_graph(graph.as_graph_def(), ["y"]).node]
        ['x', 'y']
    """
    nodes = {node.name: node for node in check_graph_def(graph_def).node}
    needed: set[str] = set()
    waiting = _names("dest_nodes", dest_nodes)
    while waiting:
        name = waiting.pop()
        if name not in nodes:
            raise ValueError(f"the graph_def has no operation {safe_repr(name)}")
        if name not in needed:
            needed.add(name)
            waiting += [source for source, _ in nodes[name].sources]
    kept = [node for node in graph_def.node if node.name in needed]
    return GraphDef(tuple([without_absent(node, needed) for node in kept]))


def _names(what: str, given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} is a list of names, not {safe_repr(given)}")
    names = [*given]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} is a list of names, not {safe_repr(given)}")
    return names


def without_absent(node: NodeDef, present: Collection[str]) -> NodeDef:
    """Return the node without requests to be placed beside operations that are not there."""
    near = tuple([name for name in node.colocation if name in present])
    return node if near == node.colocation else dataclasses.replace(node, colocation=near)


def remove_training_nodes(input_graph: GraphDef, protected_nodes: Sequence[str] | None = None) -> GraphDef:
    """Return the operations without those that pass on their input and are of use in training alone.

    These are `identity` and `check_numerics`. One stays if it is protected, if it has control inputs, or if others wait
    for it: to remove it would change the order.

    Args:
        input_graph: the operations.
        protected_nodes: the names of operations that stay, such as those that are fetched.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     y = af.square(af.identity(af.constant(3.0, name="x")), name="y")
        >>> [node.name for node in af.graph_util.remove_training_nodes(graph.as_graph_def()).node]
        ['x', 'y']
    """
    stay = set(_names("protected_nodes", protected_nodes or ()))
    nodes = check_graph_def(input_graph).node
    stay |= {name for node in nodes for name, index in node.sources if index < 0}
    stay |= {name for node in nodes for name in node.colocation}
    removed = {
        node.name: node.input[0]
        for node in nodes
        if node.op in _PASSING_ON and node.name not in stay and not any(text.startswith("^") for text in node.input)
    }
    kept = [node for node in nodes if node.name not in removed]
    return GraphDef(tuple([_behind(node, removed) for node in kept]))


def _behind(node: NodeDef, removed: Mapping[str, str]) -> NodeDef:
    """Return the node with the inputs of removed operations in the place of their outputs."""

    def followed(text: str) -> str:
        while not text.startswith("^") and parse_source(text)[0] in removed:
            text = removed[parse_source(text)[0]]
        return text

    inputs = tuple([followed(text) for text in node.input])
    return node if inputs == node.input else dataclasses.replace(node, input=inputs)


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """Return the known part of the shape of the tensor of that name; `x` and `^x` mean the first output of `x`.

    KeyError if the graph has none.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     x = af.placeholder(af.float32, [2, 3], name="x")
        >>> print(af.graph_util.tensor_shape_from_node_def_name(graph, "x"))
        [2, 3]
    """
    name = input_name.removeprefix("^")
    return graph.get_tensor_by_name(name if ":" in name else f"{name}:0").shape


def must_run_on_cpu(node: NodeDef | Operation, pin_variables_on_cpu: bool = False) -> bool:
    """Whether an operation has no kernel for a GPU, or a tensor of strings, or is a variable that shall stay on a CPU.

    Args:
        node: the operation, or one of a GraphDef, whose inputs are not known.
        pin_variables_on_cpu: whether variables shall stay there.

    Examples:
        >>> text = af.constant("hello")
        >>> af.graph_util.must_run_on_cpu(text.op), af.graph_util.must_run_on_cpu(af.constant(1.0).op)
        (True, False)
    """
    if not isinstance(node, (NodeDef, Operation)):
        raise TypeError(f"an Operation or a NodeDef is needed, not {safe_repr(node)}")
    kind = node.op if isinstance(node, NodeDef) else node.type
    if pin_variables_on_cpu and kind == "variable":
        return True
    if isinstance(node, NodeDef):
        found = [getattr(value, "dtype", value) for value in node.attr.values()]
        texts = any(each is string or each == np.dtype(object) for each in found if isinstance(each, (DType, np.dtype)))
    else:
        texts = any(tensor.dtype is string for tensor in (*node.inputs, *node.outputs))
    return texts or DeviceKind.GPU not in REGISTRY[kind].kernels


# Below a scope


def below(graph_def: GraphDef, scope: str) -> GraphDef:
    """Return the operations whose names begin with the scope, which ends with a slash, with names without it.

    Inputs from elsewhere keep their names. ValueError if one would then have the name of an operation inside.
    """
    inside = {node.name: node.name.removeprefix(scope) for node in graph_def.node if node.name.startswith(scope)}
    if not inside:
        raise ValueError(f"the graph has no operation below {scope!r}")
    short = set(inside.values())
    for node in graph_def.node:
        for source, _ in node.sources if node.name in inside else ():
            if source not in inside and source in short:
                raise ValueError(
                    f"node {node.name!r} has an input {source!r} from outside of {scope!r}, which has one of that name"
                )
    return GraphDef(tuple([_renamed(node, inside) for node in graph_def.node if node.name in inside]))


def _renamed(node: NodeDef, names: Mapping[str, str]) -> NodeDef:
    """Return the node of a graph with other names of operations, without requests to be beside those without one."""

    def renamed(text: str) -> str:
        mark, name = ("^", text[1:]) if text.startswith("^") else ("", text)
        operation, colon, index = name.partition(":")
        return mark + names.get(operation, operation) + colon + index

    return dataclasses.replace(
        _moved(node, names),
        name=names[node.name],
        input=tuple([renamed(text) for text in node.input]),
        attr=_with_bodies(node.attr, lambda inner: _moved(inner, names)),
    )


def _moved(node: NodeDef, names: Mapping[str, str]) -> NodeDef:
    near = tuple([names[name] for name in node.colocation if name in names])
    origin = None if node.origin is None else names.get(node.origin, node.origin)
    return dataclasses.replace(node, colocation=near, origin=origin)


def without_devices(graph_def: GraphDef) -> GraphDef:
    """Return the operations, none of which asks for a device."""

    def anywhere(node: NodeDef) -> NodeDef:
        return dataclasses.replace(node, device="", attr=_with_bodies(node.attr, anywhere))

    return GraphDef(tuple([anywhere(node) for node in graph_def.node]))


def _with_bodies(attr: Mapping[str, Any], change: Callable[[NodeDef], NodeDef]) -> Mapping[str, Any]:
    """Return the attributes with changed nodes in the bodies of branches and loops."""
    if not any(isinstance(value, BodyDef) for value in attr.values()):
        return attr
    return {
        name: dataclasses.replace(value, node=tuple([change(node) for node in value.node]))
        if isinstance(value, BodyDef)
        else value
        for name, value in attr.items()
    }
