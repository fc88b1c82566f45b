"""From a file or bytes to a `Model`: protocol buffers, checked.

Nothing of a model is believed: names, the order of nodes, sizes and the files that it names are checked before anything
is built. The parser of protocol buffers bounds the depth of messages.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aioflow import errors
from aioflow.files.filesystem import translate_errors
from aioflow.onnx.detaching import detach
from aioflow.onnx.external import ExternalData
from aioflow.onnx.model import Function, GraphBody, Model, Node, Reference, ValueType
from aioflow.onnx.ordering import sorted_nodes
from aioflow.onnx.protobuf import package
from aioflow.onnx.sparse_tensors import dense_array_of
from aioflow.onnx.storage import Storage
from aioflow.onnx.tensors import DTYPES, array_of, dtype_of
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import UNKNOWN, TensorShape
from aioflow.tensors.fixed_memory import map_file

_DEEPEST: Final = 16
"""The most graphs inside each other."""

Source = str | os.PathLike[str] | bytes


def read_model(source: Source) -> Model:
    """The model in a file, or in bytes.

    Raises:
        DataLossError: the bytes are no model, or damaged.
        InvalidArgumentError: the graph is none: a name is missing or given twice, or nodes form a cycle.
        UnimplementedError: a tensor has a dtype that aioflow does not have.
        FailedPreconditionError: a file is a folder, a pipe or a device.
        PermissionDeniedError, NotFoundError: external data lie outside of the model's folder, or a file is missing.
    """
    if isinstance(source, bytes):
        return _model(memoryview(source), ExternalData(None))
    path = Path(source)
    with translate_errors(str(path)):
        whole = map_file(path)
    return _model(whole, ExternalData(path))


def _model(whole: memoryview, external: ExternalData) -> Model:
    data, detached = detach(whole)
    message, reader = _parsed(data), Reader(Storage(detached, external))
    functions = {
        (normal_domain(each.domain), each.name, each.overload): reader.function(each) for each in message.functions
    }
    body = reader.graph(message.graph)
    return Model(body, opsets_of(message.opset_import), functions, _defaults(message, body))


def _defaults(message: Any, body: GraphBody) -> list[str]:
    """The initial values that are inputs, too. Before version 4 of the format all were, and none could be changed."""
    return [each.name for each in message.graph.input if message.ir_version >= 4 and each.name in body.initializers]


def _parsed(data: bytes) -> Any:
    message = package().ModelProto()
    try:
        message.ParseFromString(data)
    except Exception as error:  # the parser's DecodeError, of whichever implementation of protobuf
        raise errors.DataLossError(f"{len(data)} bytes are not a model in the ONNX format: {error}") from None
    if not message.HasField("graph"):
        raise errors.DataLossError(f"{len(data)} bytes are not a model in the ONNX format: they hold no graph")
    return message


def normal_domain(domain: str) -> str:
    """The domain's short name: "" for ONNX's own."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(entries: Sequence[Any]) -> Mapping[str, int]:
    """The version of each domain."""
    _check_text([entry.domain for entry in entries])
    return {normal_domain(entry.domain): int(entry.version) for entry in entries}


class Reader:
    """Makes plain data of messages, and counts how many graphs lie inside each other."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._depth = 0

    def graph(self, message: Any, outer: bool = True) -> GraphBody:
        """The graph of a message, with its nodes in order."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise errors.InvalidArgumentError(f"more than {_DEEPEST} graphs lie inside each other")
        _check_text(_names_of_graph(message))
        initializers = self._initializers(message)
        inputs = {each.name: self._type(each) for each in message.input if each.name not in initializers}
        names, copies = _apart(message) if self._depth > 1 else ([each.name for each in message.output], [])
        outputs = {name: self._type(each) for name, each in zip(names, message.output, strict=True)}
        _check_names(message)
        nodes = sorted_nodes([*map(self.node, message.node), *copies], {*inputs, *initializers})
        self._depth -= 1
        body = GraphBody(message.name, nodes, inputs, outputs, initializers, _declared(message, outputs), message)
        missing = body.captures() if outer and not self._depth else []
        if missing:
            raise errors.InvalidArgumentError(f"nothing computes {_listed(missing)}, which nodes or outputs need")
        return body

    def function(self, message: Any) -> Function:
        """The function of a message."""
        _check_text([message.name, message.domain, *message.input, *message.output, *message.attribute])
        _check_text(_names_of_nodes(message.node))
        _check_once(f"input of the function {message.name!r}", message.input)
        defaults = {each.name: self.attribute(each) for each in message.attribute_proto}
        attributes = dict.fromkeys(message.attribute) | defaults
        nodes = sorted_nodes([self.node(each) for each in message.node], {*message.input})
        return Function(nodes, [*message.input], [*message.output], attributes, opsets_of(message.opset_import))

    def node(self, message: Any) -> Node:
        """The node of a message."""
        self._depth += 1
        attributes = {each.name: self.attribute(each) for each in message.attribute}
        self._depth -= 1
        names = (tuple(message.input), tuple(message.output))
        return Node(message.name, normal_domain(message.domain), message.op_type, *names, attributes, message.overload)

    def attribute(self, message: Any) -> Any:
        """The value of an attribute message."""
        if message.ref_attr_name:
            return Reference(message.ref_attr_name)
        kind = package().AttributeProto.AttributeType.Name(message.type)
        match kind:
            case "FLOAT":
                return float(message.f)
            case "INT":
                return int(message.i)
            case "STRING":
                return bytes(message.s)
            case "FLOATS":
                return [float(item) for item in message.floats]
            case "INTS":
                return [int(item) for item in message.ints]
            case "STRINGS":
                return [bytes(item) for item in message.strings]
            case "TENSOR":
                return array_of(message.t, self._storage)
            case "TENSORS":
                return [array_of(item, self._storage) for item in message.tensors]
            case "SPARSE_TENSOR":
                return dense_array_of(message.sparse_tensor, self._storage)
            case "SPARSE_TENSORS":
                return [dense_array_of(item, self._storage) for item in message.sparse_tensors]
            case "GRAPH":
                return self.graph(message.g)
            case "GRAPHS":
                return [self.graph(item) for item in message.graphs]
            case "TYPE_PROTO":
                return value_type(message.tp, f"attribute {message.name!r}")
        raise errors.UnimplementedError(
            f"attribute {message.name!r} is of the kind {kind}, which aioflow does not read"
        )

    def _initializers(self, message: Any) -> dict[str, AnyArray]:
        found = {each.name: array_of(each, self._storage) for each in message.initializer}
        return found | {each.values.name: dense_array_of(each, self._storage) for each in message.sparse_initializer}

    def _type(self, message: Any) -> ValueType:
        return value_type(message.type, f"{message.name!r}")


def value_type(message: Any, what: str) -> ValueType:
    """The declared type of a value, with its open sizes as None."""
    kind = message.WhichOneof("value")
    if kind in (None, "tensor_type"):
        tensor = message.tensor_type
        return ValueType("tensor", dtype_of(tensor.elem_type, what) if tensor.elem_type else None, _shape(tensor))
    if kind in ("sequence_type", "optional_type"):
        element = value_type(getattr(message, kind).elem_type, what)
        return ValueType("sequence" if kind == "sequence_type" else "optional", element=element)
    raise errors.UnimplementedError(f"{what} is a {kind.removesuffix('_type')}, which aioflow does not have")


def _declared(message: Any, outputs: Mapping[str, ValueType]) -> dict[str, ValueType]:
    """What a graph states of its tensors. A size below 0 in the middle of a graph is open: some tools write -1."""
    found = dict[str, ValueType]()
    for each in message.value_info:
        tensor = each.type.tensor_type
        if tensor.elem_type in DTYPES and tensor.HasField("shape"):
            sizes = [int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
            shape = TensorShape([None if size < 0 else size for size in sizes])
            found[each.name] = ValueType("tensor", DTYPES[tensor.elem_type], shape)
    return found | {name: each for name, each in outputs.items() if each.kind == "tensor"}


def _shape(tensor: Any) -> TensorShape:
    if not tensor.HasField("shape"):
        return UNKNOWN
    sizes = [int(each.dim_value) if each.HasField("dim_value") else None for each in tensor.shape.dim]
    if any(size is not None and size < 0 for size in sizes):
        raise errors.DataLossError(f"a shape has the negative size {min(size for size in sizes if size is not None)}")
    return TensorShape(sizes)


def _check_text(names: Iterable[Any]) -> None:
    """DataLossError if a name is no text: the parser gives those that are not UTF-8 as bytes."""
    damaged = next((name for name in names if not isinstance(name, str)), None)
    if damaged is not None:
        raise errors.DataLossError(f"the name {damaged!r} is not UTF-8")


def _names_of_graph(message: Any) -> Iterator[Any]:
    for each in (*message.input, *message.output):
        yield each.name
    for tensor in message.initializer:
        yield from _names_of_tensor(tensor)
    for sparse in message.sparse_initializer:
        yield from (*_names_of_tensor(sparse.values), *_names_of_tensor(sparse.indices))
    yield from _names_of_nodes(message.node)


def _names_of_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        yield from (node.name, node.domain, node.op_type, node.overload, *node.input, *node.output)
        for each in node.attribute:
            yield from (each.name, each.ref_attr_name)
            for tensor in (each.t, each.sparse_tensor.values, each.sparse_tensor.indices):
                yield from _names_of_tensor(tensor)


def _initial_tensors(message: Any) -> list[Any]:
    """The tensors that give initial values their names, those of sparse ones, too."""
    return [*message.initializer, *[each.values for each in message.sparse_initializer]]


def _names_of_tensor(tensor: Any) -> Iterator[Any]:
    """The name, and the names of a file."""
    yield tensor.name
    for entry in tensor.external_data:
        yield from (entry.key, entry.value)


def _check_names(message: Any) -> None:
    """InvalidArgumentError if two values of a graph have one name. An input may have an initial value of its name."""
    for what, values in (("input", message.input), ("initial value", _initial_tensors(message))):
        _check_once(what, [each.name for each in values])
    made = [name for node in message.node for name in node.output if name]
    given = {each.name for each in message.input} | {each.name for each in _initial_tensors(message)}
    twice = [name for name, times in Counter(made).items() if times > 1 or name in given]
    if twice:
        raise errors.InvalidArgumentError(f"{_listed(twice)} is computed more than once")


def _check_once(what: str, names: Sequence[str]) -> None:
    """InvalidArgumentError if a name is there more than once, or empty."""
    if "" in names:
        raise errors.InvalidArgumentError(f"an {what} has no name")
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise errors.InvalidArgumentError(f"more than one {what} is named {_listed(twice)}")


def _apart(message: Any) -> tuple[list[str], list[Node]]:
    """Different names for the outputs of a body, which may give a value twice, and the nodes that copy such values."""
    taken = {*_names_of_graph(message)}
    names, copies = dict[str, None](), list[Node]()
    for number, each in enumerate(message.output):
        name = each.name
        if name in names:
            name = f"{name} ({number})"
            while name in taken:
                name += "'"
            copies.append(Node("", "", "Identity", (each.name,), (name,), {}, ""))
        names[name] = None
    return list(names), copies


def _listed(names: Sequence[str]) -> str:
    some = ", ".join(repr(name) for name in names[:5])
    return some if len(names) <= 5 else f"{some} and {len(names) - 5} more"
