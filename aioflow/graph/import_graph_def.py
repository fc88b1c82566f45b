"""Adds the operations of a GraphDef to the default graph."""

import contextlib
import difflib
import functools
import heapq
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.graphdef import BodyDef, GraphDef, NodeDef, Source, parse_source
from aioflow.graph.op import REGISTRY, Op
from aioflow.graph.operation import Attrs, Operation, Tensor
from aioflow.graph.subgraph import Body, BodyGraph
from aioflow.tensors.dtypes import DType, ListSpec, ResourceSpec, Spec, TensorShape
from aioflow.tensors.plain_data import summarise

_LONGEST: Final = 300


def import_graph_def(
    graph_def: GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Tensor | Operation] | None:
    """Add all operations of `graph_def` to the default graph, or none if one is invalid. Shape rules run again.

    Args:
        graph_def: the operations to add, in any order.
        input_map: replacements for inputs: tensors for `op:index`, operations for `^op`. The graph_def must use each
            name, but need not contain it.
        return_elements: names in the graph_def of tensors and operations to return.
        name: the name scope of the added operations, "import" by default; "" for none.
        op_dict: for compatibility: the ops are those of this version of aioflow.
        producer_op_list: for compatibility.

    Returns:
        The list of these elements, or None if `return_elements` is None.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: this version of aioflow cannot build the graph_def, or a name is not found in it.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     y = af.square(af.placeholder(af.float32, [], name="x"), name="y")
        >>> feeds = {"x:0": af.constant(3.0)}
        >>> (y,) = af.import_graph_def(graph.as_graph_def(), feeds, return_elements=["y:0"], name="")
        >>> await session.run(y)
        np.float32(9.0)
    """
    if not isinstance(graph_def, GraphDef):
        raise TypeError(
            f"a GraphDef is needed, not {type(graph_def).__name__}; see GraphDef.from_json and from_msgpack, and for "
            "graphs of TensorFlow af.tensorflow_files.import_graph_def"
        )
    graph = get_default_graph()
    with graph.transaction(), graph.name_scope("import" if name is None else name) as scope:
        mapped = {_source(key): _resolve_mapped(graph, key, value) for key, value in (input_map or {}).items()}
        addition = _Import(graph, scope, graph_def, mapped)
        addition.build()
        addition.set_origins()
        return None if return_elements is None else [addition.element(text) for text in return_elements]


def _source(text: str) -> Source:
    if not isinstance(text, str):
        raise TypeError(f"{summarise(text)} is not a valid name in a GraphDef")
    return parse_source(text)


def _resolve_mapped(graph: Graph, key: str, value: Any) -> Tensor | Operation:
    if key.startswith("^"):
        element = graph.as_graph_element(value)
        return element.op if isinstance(element, Tensor) else element
    if isinstance(value, Tensor):
        return graph.adopt(value)
    if not graph.get_name_scope():
        raise ValueError(f"input_map has {value!r} for {key!r}: without a name scope it accepts only tensors")
    with graph.name_scope("_inputs"):  # no name in a GraphDef starts with "_inputs"
        return graph.adopt(convert_to_tensor(value))


_MOST_OUTPUTS: Final = 1 << 18
"""The most outputs besides the first of each operation.

An attribute can request any number, which could fill the memory.
"""


class _Import:
    def __init__(self, graph: Graph, scope: str, graph_def: GraphDef, mapped: dict[Source, Tensor | Operation]) -> None:
        REGISTRY.complete()
        self._graph = graph
        self._scope = scope
        self._mapped = mapped
        self._nodes: dict[str, NodeDef] = {}
        self._made: dict[str, Operation] = {}
        self._everywhere: dict[str, Operation] = {}
        """The operations built here and in bodies inside."""
        self._origins: list[tuple[Operation, str]] = []
        self._arguments: dict[str, Spec] = {}
        """The Specs of the arguments of a body."""
        self._more_outputs = [_MOST_OUTPUTS]
        """The number of outputs still allowed besides the first of each operation, here and in bodies."""
        self._around: frozenset[str] = frozenset()
        """The names of the operations around a body."""
        for node in graph_def.node:
            if node.name in self._nodes:
                raise _node_error(node, "the name occurs twice; names are unique in a graph")
            self._nodes[node.name] = node
        self._sources = {name: node.sources for name, node in self._nodes.items()}

    def build(self) -> None:
        """Add every operation after its sources, otherwise in the order of the GraphDef."""
        for node in self._in_order():
            self._made[node.name] = self._add(node)
        self._close_loops()
        self._everywhere.update(self._made)
        self._origins += [(self._made[node.name], node.origin) for node in self._nodes.values() if node.origin]
        for name, index in self._mapped:
            if (name, index) not in self._used and not self._exists(name, index):
                raise ValueError(f"input_map has {_input_text(name, index)!r}, which is not in the graph_def")

    def _close_loops(self) -> None:
        """Connect each `merge` to its `next_iteration`, which now exists."""
        for node in self._nodes.values():
            for place, (name, index) in enumerate(self._sources[node.name] if node.op == "merge" else ()):
                if index >= 0 and (name, index) not in self._mapped and self._is_back_edge(name, node):
                    self._made[node.name].update_input(place, self._input(node, name, index))

    def set_origins(self) -> None:
        """Set the forward operation of each operation of a gradient."""
        for operation, origin in self._origins:
            operation.origin = self._everywhere.get(origin, operation.origin)

    def element(self, text: str) -> Tensor | Operation:
        """Return the tensor or operation that `return_elements` names."""
        name, index = _source(text)
        if ":" in text and (name, index) in self._mapped:
            return self._mapped[name, index]
        if text.startswith("^") or not self._exists(name, index if ":" in text else -1):
            raise ValueError(f"return_elements has {text!r}, which is not in the graph_def")
        return self._made[name].outputs[index] if ":" in text else self._made[name]

    def _exists(self, name: str, index: int) -> bool:
        return name in self._made and index < len(self._made[name].outputs)

    @functools.cached_property
    def _used(self) -> set[Source]:
        return {source for sources in self._sources.values() for source in sources}

    # Order

    def _in_order(self) -> list[NodeDef]:
        place = {name: index for index, name in enumerate(self._nodes)}
        waiting_for: dict[str, int] = {}
        followers: dict[str, list[str]] = {name: [] for name in self._nodes}
        for name, node in self._nodes.items():
            before = {
                source
                for source, index in self._sources[name]
                if (source, index) not in self._mapped and not self._is_back_edge(source, node)
            }
            for source in before:
                if source not in self._nodes:
                    raise _node_error(
                        node, f"there is no {source!r} to take an input from: add it, or map it by input_map"
                    )
                followers[source].append(name)
            waiting_for[name] = len(before)
        names = list(self._nodes)
        ready = [place[name] for name in names if not waiting_for[name]]
        ordered: list[NodeDef] = []
        while ready:
            name = names[heapq.heappop(ready)]
            ordered.append(self._nodes[name])
            for follower in followers[name]:
                waiting_for[follower] -= 1
                if not waiting_for[follower]:
                    heapq.heappush(ready, place[follower])
        self._check_acyclic([name for name in names if waiting_for[name]])
        return ordered

    def _is_back_edge(self, source: str, node: NodeDef) -> bool:
        """Whether the edge leads back to the start of a loop built from `merge` and `next_iteration`."""
        return node.op == "merge" and source in self._nodes and self._nodes[source].op == "next_iteration"

    def _check_acyclic(self, left: list[str]) -> None:
        """Raise ValueError, naming a cycle, if nodes are `left` that depend on each other."""
        if not left:
            return
        rest, path, name = set(left), dict[str, None](), left[0]
        while name not in path:
            path[name] = None
            name = next(source for source, index in self._sources[name] if self._waits(source, index, rest))
        cycle = list(path)[list(path).index(name) :]
        way = " <- ".join([*cycle[:7], *["..."][: len(cycle) - 7], name])
        raise _node_error(self._nodes[name], f"it needs its own result: {way}; break the cycle")

    def _waits(self, source: str, index: int, rest: set[str]) -> bool:
        return source in rest and (source, index) not in self._mapped

    # One node

    def _add(self, node: NodeDef) -> Operation:
        if node.name in self._arguments:
            assert isinstance(self._graph, BodyGraph)
            argument = self._graph.argument(self._arguments[node.name], f"{self._scope}{node.name}/").op
            argument.line = node.line or argument.line
            return argument
        definition = REGISTRY.get(node.op)
        if definition is None:
            close = difflib.get_close_matches(node.op, REGISTRY, 1)
            raise _node_error(node, "there is no such op" + (f"; did you mean {close[0]!r}?" if close else ""))
        sources = [source for source in self._sources[node.name] if source[1] >= 0]
        begun = [source for source in sources if source[0] in self._made or not self._is_back_edge(source[0], node)]
        if sources and not begun:
            raise _node_error(node, "all its inputs come from its own loop; it needs one from outside")
        inputs = tuple([self._input(node, *(source if source in begun else begun[0])) for source in sources])
        try:
            check_arity(definition, len(inputs))
            attr = {
                name: self._body(node, value, inputs) if isinstance(value, BodyDef) else value
                for name, value in node.attr.items()
            }
            attrs = attributes(definition, attr)
            specs = definition.infer([tensor.spec for tensor in inputs], attrs)
        except Exception as error:  # a rule may raise anything for inputs that no caller would pass
            given = ", ".join(str(tensor.spec) for tensor in inputs)
            raise _node_error(node, f"{error}" + (f"\n  inputs: {given}" if given else "")) from error
        self._more_outputs[0] -= max(0, len(specs) - 1)
        if self._more_outputs[0] < 0:
            raise _node_error(
                node, f"the operations of a graph_def have more than {_MOST_OUTPUTS} outputs besides the first"
            )
        operation = self._graph.add(definition, inputs, attrs, specs, f"{self._scope}{node.name}/")
        if operation.name != self._scope + node.name:
            raise _node_error(
                node, f"the graph has an operation {self._scope + node.name!r} already; choose another name scope"
            )
        self._restore_scope(node, operation)
        return operation

    def _body(self, node: NodeDef, body: BodyDef, inputs: Sequence[Tensor]) -> Body:
        """Build a body of the node."""
        if any(place >= len(inputs) for place in body.takes):
            raise ValueError(f"a body takes inputs {list(body.takes)} of {len(inputs)}")
        graph = BodyGraph(self._graph)
        inside = _Import(graph, self._scope, GraphDef(body.node), {})
        for name, place in zip(body.arguments, body.takes, strict=True):
            inside._arguments[name] = _argument_spec(node.attr, place, inputs[place].spec, inside._nodes[name])
        inside._everywhere, inside._origins = self._everywhere, self._origins
        inside._more_outputs = self._more_outputs
        inside._around = self._around.union(self._nodes)
        inside.build()
        arguments = tuple([inside._made[name].outputs[0] for name in body.arguments])
        outputs = tuple([inside._input(node, *parse_source(text)) for text in body.outputs])
        return Body(graph, arguments, body.takes, outputs)

    def _input(self, node: NodeDef, name: str, index: int) -> Tensor:
        mapped = self._mapped.get((name, index))
        if mapped is not None:
            assert isinstance(mapped, Tensor)
            return mapped
        outputs = self._made[name].outputs
        if index >= len(outputs):
            raise _node_error(node, f"{name!r} has {len(outputs)} outputs; there is no {_input_text(name, index)!r}")
        return outputs[index]

    def _restore_scope(self, node: NodeDef, operation: Operation) -> None:
        """Set the properties that scopes give to an operation when it is built."""
        controls = [self._control(name) for name, index in self._sources[node.name] if index < 0]
        operation.control_inputs = tuple(dict.fromkeys([*controls, *operation.control_inputs]))
        if node.device:
            around, own = map(DeviceSpec.from_string, (operation.device, node.device))
            operation.device = str(around.make_merged_spec(own))
        operation.container = node.container or operation.container
        operation.colocation = tuple([self._neighbour(node, name) for name in node.colocation]) or operation.colocation
        operation.gradient_override = node.gradient or operation.gradient_override
        operation.line = node.line or operation.line
        if node.shapes and len(node.shapes) != len(operation.outputs):
            raise _node_error(node, f"it has {len(operation.outputs)} outputs and {len(node.shapes)} shapes")
        for output, shape in zip(operation.outputs, node.shapes, strict=False):
            try:
                output.set_shape(shape)
            except ValueError as error:
                raise _node_error(node, str(error)) from error

    def _control(self, name: str) -> Operation:
        mapped = self._mapped.get((name, -1))
        return mapped if isinstance(mapped, Operation) else self._made[name]

    def _neighbour(self, node: NodeDef, name: str) -> str:
        if name not in self._nodes and name not in self._around and not self._has_operation(self._scope + name):
            raise _node_error(node, f"there is no {name!r} to share a device with: add it, or drop the colocation")
        return self._scope + name

    def _has_operation(self, name: str) -> bool:
        """Whether the graph has it, or one around the body that this graph is."""
        graph: Graph | None = self._graph
        while graph is not None:
            with contextlib.suppress(KeyError, ValueError):
                graph.get_operation_by_name(name)
                return True
            graph = graph.outer if isinstance(graph, BodyGraph) else None
        return False


def _input_text(name: str, index: int) -> str:
    return f"^{name}" if index < 0 else f"{name}:{index}"


def _node_error(node: NodeDef, problem: str) -> ValueError:
    built = "" if node.line is None else f"\n  built at: {node.line[0]}:{node.line[1]} in {node.line[2]}"
    return ValueError(f"node {_short_name(node.name)!r} ({_short_name(node.op)}): {problem}{built}")


def _short_name(name: str) -> str:
    """Shorten a name for an error text."""
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


# Arity and attributes


def check_arity(definition: Op[Any], count: int) -> None:
    """Raise ValueError if the op cannot have `count` inputs."""
    roles = [param.role for param in definition.params]
    singles, lists = roles.count("tensor"), roles.count("list")
    if count < singles or (count > singles and not lists) or (lists and (count - singles) % lists):
        wanted = f"{singles} inputs" + (f" and {lists} lists of equal length" if lists else "")
        raise ValueError(f"it takes {wanted}, and has {count}")


def _argument_spec(attr: Mapping[str, Any], place: int, spec: Spec, argument: NodeDef) -> Spec:
    """Return the Spec of a body's argument, given its input's; for a loop variable as it holds in all iterations."""
    own = attr.get("limited", 0) + attr.get("variables", 0)
    lists = own + attr.get("replays", 0)
    if place >= lists or (place < own and isinstance(spec, ResourceSpec)):
        return spec
    if place >= own:
        return ListSpec.check(spec).element
    return Spec(argument.attr["dtype"], argument.attr["shape"])


def check_attributes(definition: Op[Any], attr: Mapping[str, Any]) -> None:
    """Raise ValueError if the op has no such attributes, or a value has a wrong type."""
    hints = _hints(definition.rule)
    names = [param.name for param in definition.params if param.role == "attr"]
    for name, value in attr.items():
        if name not in names:
            raise ValueError(f"it has no attribute {summarise(name)}, but {', '.join(names) or 'none'}")
        if not _fits(value, hints[name]):
            raise ValueError(f"{summarise(value)} cannot be its attribute {name!r}, which is of type {hints[name]}")


def attributes(definition: Op[Any], attr: Mapping[str, Any]) -> Attrs:
    """Return all attributes of an operation, given those without a default. ValueError if one cannot be."""
    check_attributes(definition, attr)
    data = {param.name: None for param in definition.params if param.role != "attr"}
    values, _ = definition._arguments((), {**data, **attr})
    return {p.name: value for p, value in zip(definition.params, values, strict=True) if p.role == "attr"}


_LISTS: Final = (list, tuple, Sequence, Collection, Iterable)
_hints: Final = functools.cache(typing.get_type_hints)


def _fits(value: Any, hint: Any) -> bool:
    """Whether the annotation of the shape rule allows the value of an attribute."""
    kind, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in args)
    if kind is typing.Literal:
        return any(value == each and type(value) is type(each) for each in args)
    if kind is float:
        return type(value) in (int, float)
    if kind in (bool, int, str, bytes, DType, TensorShape):
        return type(value) is kind
    if kind is Any or not isinstance(kind, type):
        return True
    if kind in _LISTS:
        return isinstance(value, tuple) and _all_fit(value, args)
    return isinstance(value, kind)


def _all_fit(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 1 or hints[1:] == (...,):
        return all(_fits(value, hints[0]) for value in values)
    return not hints or (len(values) == len(hints) and all(map(_fits, values, hints)))
