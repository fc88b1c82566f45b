"""A graph as plain data, for the wire and for files, and back.

    {"format": "aioflow.graph", "version": 1, "nodes": [
        {"name": "layer/product", "op": "matmul", "input": ["x", "split:1", "^init"], "attr": {"transpose_a": false}},
        ...]}

An input is `op:index`, where `:0` may be left out, or `^op` for a control input; these come last. `plain_data` has the
form of attributes. The bodies of branches and loops are attributes, too:

    {"body": {"nodes": [...], "arguments": ["body/argument"], "takes": [0], "outputs": ["body/add"]}}

`NodeDef` lists the other fields of a node. JSON writes bytes as {"$bytes": "base64"}. Collections and seeds are not
stored.

Nodes may come in any order. Everything is checked: malformed data raises ValueError, which names the node, before the
graph changes. Ops are found only in the registry.
"""

import base64
import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from aioflow.graph import scopes
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import METHODS, Graph
from aioflow.graph.operation import Operation, SourceLine
from aioflow.graph.subgraph import Body
from aioflow.tensors import plain_data
from aioflow.tensors.dtypes import Spec, TensorShape
from aioflow.version import GRAPH_DEF_VERSION

Source: TypeAlias = tuple[str, int]
"""An output of a node as (name, index); index -1 stands for a control input."""

FORMAT: Final = "aioflow.graph"
VERSION: Final = GRAPH_DEF_VERSION
_INPUT: Final = re.compile(rf"(\^)?({scopes.VALID_NAME.pattern})(?::(0|[1-9]\d{{0,8}}))?")
_BY_NAME: Final = ": pass the name under which the server that runs it has registered it"
_LOCAL_GRADIENT: Final = "a custom gradient, which stayed with the graph it was built in"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class NodeDef:
    """One operation as plain data. ValueError for an impossible field.

    Attributes:
        name: the operation's name.
        op: the name of the op.
        input: its data inputs as `op:index`, then its control inputs as `^op`.
        attr: its attributes, possibly without those that have their default.
        device: the requested device.
        container: the container of its state.
        colocation: the names of the operations that must share its device.
        gradient: the name of the registered gradient that overrides the op's.
        shapes: the shapes of its outputs if more is known than the shape rule finds, else empty.
        line: the user's line that built it: file, number, function.
        origin: the name of the operation to whose gradient it belongs.
    """

    name: str
    op: str
    input: tuple[str, ...] = ()
    attr: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    device: str = ""
    container: str = ""
    colocation: tuple[str, ...] = ()
    gradient: str | None = None
    shapes: tuple[TensorShape, ...] = ()
    line: SourceLine | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        try:
            for field, check in _CHECKS.items():
                if not check(getattr(self, field)):
                    raise ValueError(f"{plain_data.summarise(getattr(self, field))} cannot be its {field}")
            for name, value in self.attr.items():
                _check_attribute(name, value)
            DeviceSpec.from_string(self.device)
        except ValueError as error:
            raise ValueError(f"node {plain_data.summarise(self.name)}: {error}") from None

    @property
    def sources(self) -> list[Source]:
        """The data inputs, then the control inputs."""
        return [parse_source(text) for text in self.input]

    def __eq__(self, other: object) -> bool:
        return _node_to_plain(self) == _node_to_plain(other) if isinstance(other, NodeDef) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


def parse_source(text: str) -> Source:
    """Return the source that `op`, `op:index` or `^op` names. ValueError for another form."""
    match = _INPUT.fullmatch(text)
    if match is None or (match[1] and match[3]):
        raise ValueError(f"{plain_data.summarise(text)} is not an input: write op, op:index or ^op")
    return match[2], -1 if match[1] else int(match[3] or 0)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and scopes.VALID_NAME.fullmatch(value) is not None


def _are_inputs(value: Any) -> bool:
    if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
        return False
    afters = [parse_source(item)[1] < 0 for item in value]
    if afters != sorted(afters):
        raise ValueError("an input comes after one that starts with '^'; write these last")
    return True


def _is_line(value: Any) -> bool:
    return value is None or (isinstance(value, tuple) and list(map(type, value)) == [str, int, str])


def _check_attribute(name: Any, value: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"{plain_data.summarise(name)} is not an attribute name")
    if isinstance(value, BodyDef):
        return
    try:
        plain_data.check_plain(value)
    except ValueError as error:
        raise ValueError(f"attribute {name!r}: {error}{_mend(value)}") from None


def _mend(value: Any) -> str:
    """What to do about a value that exists in this process alone: a function, or one whose `instead` says it."""
    mend = _BY_NAME if callable(value) else getattr(value, "instead", "")
    return f"; it exists only in this process, so the graph cannot leave it{mend}" if mend else ""


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "name": _is_name,
    "op": lambda value: isinstance(value, str),
    "input": _are_inputs,
    "attr": lambda value: isinstance(value, Mapping),
    "device": lambda value: isinstance(value, str),
    "container": lambda value: value == "" or _is_name(value),
    "colocation": lambda value: isinstance(value, tuple) and all(map(_is_name, value)),
    "gradient": lambda value: value is None or isinstance(value, str),
    "shapes": lambda value: isinstance(value, tuple) and all(isinstance(shape, TensorShape) for shape in value),
    "line": _is_line,
    "origin": lambda value: value is None or _is_name(value),
}


@dataclasses.dataclass(frozen=True, slots=True)
class BodyDef:
    """The body of a branch or loop as plain data. ValueError if its names do not fit together.

    Attributes:
        node: its operations.
        arguments: the names of the operations that are arguments.
        takes: for each argument, the index of the input of the body's operation that feeds it.
        outputs: its outputs, as `op:index`.
    """

    node: tuple[NodeDef, ...]
    arguments: tuple[str, ...]
    takes: tuple[int, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        kinds = {node.name: node.op for node in self.node}
        if len(self.arguments) != len(self.takes) or any(kinds.get(name) != "argument" for name in self.arguments):
            raise ValueError("a body has arguments, each with the number of an input")
        if not all(type(place) is int and place >= 0 for place in self.takes):
            raise ValueError(f"{plain_data.summarise(self.takes)} are not numbers of inputs")
        if any(parse_source(text)[1] < 0 or parse_source(text)[0] not in kinds for text in self.outputs):
            raise ValueError("a body gives what one of its operations makes")

    def to_plain(self) -> dict[str, Any]:
        """Return dicts, lists, numbers, text and bytes."""
        nodes = [_node_to_plain(node) for node in self.node]
        lists = {"arguments": list(self.arguments), "takes": list(self.takes), "outputs": list(self.outputs)}
        return {"body": {"nodes": nodes, **lists}}


def _attribute_to_plain(value: Any) -> Any:
    return value.to_plain() if isinstance(value, BodyDef) else plain_data.to_plain(value)


def _attribute_from_plain(data: Any, depth: int) -> Any:
    if not isinstance(data, dict) or data.keys() != {"body"}:
        return plain_data.from_plain(data)
    content = data["body"]
    names = {"nodes", "arguments", "takes", "outputs"}
    if not isinstance(content, dict) or content.keys() != names or not all(type(v) is list for v in content.values()):
        raise ValueError(
            f"{plain_data.summarise(content)} is not a body: it has lists of nodes, arguments, takes and outputs"
        )
    if depth >= plain_data.DEEPEST:
        raise ValueError(f"bodies are nested more than {plain_data.DEEPEST} deep")
    nodes = tuple([_node_from_plain(index, item, depth + 1) for index, item in enumerate(content["nodes"])])
    texts = (*content["arguments"], *content["outputs"])
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("arguments and outputs of a body are names")
    return BodyDef(nodes, tuple(content["arguments"]), tuple(content["takes"]), tuple(content["outputs"]))


@dataclasses.dataclass(frozen=True, slots=True)
class GraphDef:
    """A graph as plain data: its operations, in an order.

    Examples:
        >>> with af.Graph().as_default() as graph:
        ...     total = af.add(1, 2, name="total")
        >>> text = graph.as_graph_def().to_json()
        >>> af.import_graph_def(af.GraphDef.from_json(text), return_elements=["total:0"], name="copy")
        [<af.Tensor 'copy/total:0' int32[]>]
    """

    node: tuple[NodeDef, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Return dicts, lists, numbers, text and bytes."""
        return {"format": FORMAT, "version": VERSION, "nodes": [_node_to_plain(node) for node in self.node]}

    @classmethod
    def from_plain(cls, data: Any) -> "GraphDef":
        """What `to_plain` wrote. ValueError for anything else, or another version of the format."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{plain_data.summarise(data)} is not a graph: it has no 'format': {FORMAT!r}")
        if type(data.get("version")) is not int or data["version"] != VERSION:
            raise ValueError(
                f"version {plain_data.summarise(data.get('version'))} of the graph format is not known, {VERSION} is"
            )
        if data.keys() != {"format", "version", "nodes"} or not isinstance(data["nodes"], list):
            raise ValueError(
                f"a graph has format, version and a list of nodes, not {plain_data.summarise(tuple(data))}"
            )
        return cls(tuple([_node_from_plain(index, item) for index, item in enumerate(data["nodes"])]))

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_plain(), default=_bytes_to_json, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "GraphDef":
        """What `to_json` wrote. ValueError for anything else."""
        try:
            data = json.loads(text, object_pairs_hook=_from_json, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError("the JSON text is nested too deeply for a graph") from None
        return cls.from_plain(data)

    def to_msgpack(self) -> bytes:
        """Msgpack's bytes."""
        import msgpack

        packed: bytes = msgpack.packb(self.to_plain())
        return packed

    @classmethod
    def from_msgpack(cls, data: bytes) -> "GraphDef":
        """What `to_msgpack` wrote. ValueError for anything else."""
        try:
            found = plain_data.unpack(data)
        except ValueError as error:
            raise ValueError(f"these bytes are not a graph in msgpack: {error}") from None
        return cls.from_plain(found)

    def __repr__(self) -> str:
        return f"<af.GraphDef of {len(self.node)} nodes>"


# Nodes to and from plain data

_FIELDS: Final = tuple([field.name for field in dataclasses.fields(NodeDef)])
_EMPTY: Final[tuple[Any, ...]] = ("", (), {}, None)
_TO_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "input": list,
    "attr": lambda attr: {name: _attribute_to_plain(value) for name, value in attr.items()},
    "colocation": list,
    "shapes": lambda shapes: [shape.as_plain() for shape in shapes],
    "line": list,
}
_FROM_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "input": tuple,
    "colocation": tuple,
    "shapes": lambda shapes: tuple([plain_data.from_plain({"shape": shape}) for shape in shapes]),
    "line": tuple,
}


def _node_to_plain(node: NodeDef) -> dict[str, Any]:
    stated = {name: value for name in _FIELDS if (value := getattr(node, name)) not in _EMPTY}
    return {name: _TO_PLAIN.get(name, lambda same: same)(value) for name, value in stated.items()}


def _node_from_plain(index: int, data: Any, depth: int = 0) -> NodeDef:
    if not isinstance(data, dict) or not {"name", "op"} <= data.keys() <= set(_FIELDS):
        found = plain_data.summarise(tuple(data) if isinstance(data, dict) else data)
        raise ValueError(f"node {index} has {found}: it needs a name and an op, and may have {', '.join(_FIELDS[2:])}")
    label = f"node {plain_data.summarise(data['name'])}"
    fields: dict[str, Any] = {}
    for name, value in data.items():
        if name in (*_FROM_PLAIN, "attr") and not isinstance(value, dict if name == "attr" else list):
            raise ValueError(f"{label}: {plain_data.summarise(value)} cannot be its {name}")
        try:
            fields[name] = _attributes_from_plain(value, depth) if name == "attr" else _read_field(name, value)
        except ValueError as error:
            raise ValueError(f"{label}: {name}: {error}") from None
    return NodeDef(**fields)


def _read_field(name: str, value: Any) -> Any:
    return _FROM_PLAIN.get(name, lambda same: same)(value)


def _attributes_from_plain(attr: dict[Any, Any], depth: int) -> dict[Any, Any]:
    return {name: _attribute_from_plain(value, depth) for name, value in attr.items()}


def _bytes_to_json(value: Any) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not plain data")
    return {"$bytes": base64.b64encode(value).decode("ascii")}


def _from_json(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name occurs twice among {plain_data.summarise(tuple(name for name, _ in pairs))}")
    if found.keys() == {"$bytes"}:
        if not isinstance(found["$bytes"], str):
            raise ValueError("$bytes is text in base64")
        return base64.b64decode(found["$bytes"], validate=True)
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON; a float that is not finite is written as text")


# From a graph


def graph_def(graph: Graph, from_version: int = 0) -> GraphDef:
    """The operations of `graph`, from that number on, as plain data.

    Raises:
        ValueError: an operation holds what exists in this process alone, as the function of a `py_func`.
    """
    return GraphDef(tuple([node_def(operation) for operation in graph.get_operations()[from_version:]]))


METHODS["as_graph_def"] = graph_def


def node_def(operation: Operation) -> NodeDef:
    """The operation as plain data."""
    reads = [t.op.name if t.index == 0 else t.name for t in operation.inputs]
    override = operation.gradient_override
    return NodeDef(
        operation.name,
        operation.type,
        (*reads, *[f"^{control.name}" for control in operation.control_inputs]),
        MappingProxyType({name: _attribute(value) for name, value in operation.attrs.items()}),
        operation.device,
        operation.container,
        operation.colocation,
        override if override is None or isinstance(override, str) else _LOCAL_GRADIENT,
        _refined_shapes(operation),
        operation.line,
        None if operation.origin is None else operation.origin.name,
    )


def _attribute(value: Any) -> Any:
    if not isinstance(value, Body):
        return value
    nodes = tuple([node_def(operation) for operation in value.graph.get_operations()])
    names = tuple([argument.op.name for argument in value.arguments])
    return BodyDef(nodes, names, value.takes, tuple([output.name for output in value.outputs]))


def _refined_shapes(operation: Operation) -> tuple[TensorShape, ...]:
    """The outputs' shapes, if `set_shape` has told more of one than the shape rule finds; else nothing."""
    shapes = tuple([output.shape for output in operation.outputs])
    try:
        found = operation.definition.infer([tensor.spec for tensor in operation.inputs], operation.attrs)
        more = any(map(_is_more_specific, shapes, found))
    except ValueError:
        more = True
    return shapes if more else ()


def _is_more_specific(shape: TensorShape, found: Spec) -> bool:
    return found.shape.merge_with(shape).sizes != found.shape.sizes
