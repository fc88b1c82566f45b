"""Encodes a flow as plain data and arrays, for the worker that runs it, and decodes it.

    {"nodes": [{"op": "matmul", "in": [[0, 0], [1, 0]], "attr": {...}, "out": [...], "by": 0}, ...],
     "feeds": [0], "fetches": [[7, 0]], "targets": [9], "by": [...], "shapes": [[2, -1], null], "blocks": [...]}

Nodes are named by their position; only the back edge of a loop reads a later node. Arrays among the attributes are sent
beside the data, unpacked: {"array": 3} is the fourth. Shapes are in a table, so that shapes that are one object, and
therefore equal in every run, are one object again.

The data is not trusted: ops must be in the registry, all numbers are checked, and the dtypes of each node must follow
the rule of its op. Otherwise decoding raises ValueError. Shapes and known values are not checked, since kernels look at
the arrays, and a peer that may register a flow may run any op in any order.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.import_graph_def import check_arity, check_attributes
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import SourceLine
from aioflow.graph.subgraph import Body
from aioflow.plan.passes.flow import Block, Flow, Node, Value, is_back_edge
from aioflow.tensors import plain_data
from aioflow.tensors.dtypes import SCALAR, ListSpec, ResourceSpec, Spec, TensorShape, bool_, int32

_LARGE: Final = 64
"""Bytes from which on an array travels beside the data."""
_DEEPEST: Final = plain_data.DEEPEST
_BOOL: Final = Spec(bool_, SCALAR)
_INT: Final = Spec(int32, SCALAR)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The description of the user's operation behind a node, for a worker; see `Operation`.

    Attributes:
        name: the name of the operation.
        type: its op.
        line: the user's line that built it.
        id: its number in the graph.
        origin: the operation whose gradient it is part of.
    """

    name: str
    type: str
    line: SourceLine | None
    id: int
    origin: "Origin | None" = dataclasses.field(default=None, repr=False)


# Writing


def flow_to_plain(flow: Flow) -> tuple[dict[str, Any], list[Any]]:
    """The flow as plain data, and the arrays that go with it. ValueError if something cannot leave the process."""
    writer = _Writer()
    data = writer.flow(flow)
    return {**data, "by": writer.origins, "shapes": writer.shapes}, writer.arrays


class _Writer:
    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.origins: list[Any] = []
        self.shapes: list[Any] = []
        self._places: dict[int, int] = {}
        self._shared: list[Any] = []

    def flow(self, flow: Flow) -> dict[str, Any]:
        places = {node: place for place, node in enumerate(flow.nodes)}
        return {
            "nodes": [self._node(node, places) for node in flow.nodes],
            "feeds": [places[node] for node in flow.feeds],
            "fetches": [[places[node], index] for node, index in flow.fetches],
            "targets": [places[node] for node in flow.targets],
        }

    def _node(self, node: Node, places: Mapping[Node, int]) -> dict[str, Any]:
        made: dict[str, Any] = {
            "op": node.definition.name,
            "name": node.name,
            "in": [[places[source], index] for source, index in node.inputs],
            "out": [self._spec(spec) for spec in node.output_specs],
            "by": self._origin(node.operation),
        }
        if attrs := {k: self._attr(node, k, v) for k, v in node.attrs.items() if not isinstance(v, Body)}:
            made["attr"] = attrs
        if node.controls:
            made["after"] = [places[control] for control in node.controls]
        if node.at_home:
            made["home"] = True
        if node.blocks:
            made["blocks"] = [{**self.flow(block.flow), "takes": list(block.takes)} for block in node.blocks]
        return made

    def _attr(self, node: Node, name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.nbytes >= _LARGE and value.dtype.kind != "O":
            self.arrays.append(value)
            return {"beside": len(self.arrays) - 1}
        try:
            return plain_data.to_plain(value)
        except ValueError as error:
            raise ValueError(
                f"{node.name!r} ({node.definition.name}) cannot run on another worker: attribute {name!r}: {error}"
            ) from None

    def _spec(self, spec: Spec) -> list[Any]:
        match spec:
            case ListSpec():
                flags = [spec.dynamic_size, spec.clear_after_read, spec.infer_shape]
                return ["list", [self._spec(item) for item in spec.items], spec.size, *flags]
            case ResourceSpec():
                return ["resource", [self._spec(item) for item in spec.items]]
        known = list(spec.known) if isinstance(spec.known, tuple) else spec.known
        return [spec.dtype.name, self._shared_place(spec.shape), *([] if known is None else [known])]

    def _shared_place(self, shape: TensorShape) -> int:
        if id(shape) not in self._places:
            self._places[id(shape)] = len(self.shapes)
            self.shapes.append(shape.as_plain())
            self._shared.append(shape)  # its id stays its own
        return self._places[id(shape)]

    def _origin(self, operation: Any) -> int:
        if id(operation) not in self._places:
            origin = None if operation.origin is None else self._origin(operation.origin)
            line = None if operation.line is None else list(operation.line)
            self._places[id(operation)] = len(self.origins)
            self.origins.append([operation.name, operation.type, line, operation.id, origin])
            self._shared.append(operation)
        return self._places[id(operation)]


# Reading


def flow_from_plain(data: Any, arrays: Sequence[Any]) -> Flow:
    """The flow that `flow_to_plain` wrote. ValueError for anything else."""
    REGISTRY.complete()
    try:
        flow = _Reader(data, arrays).flow(data, 0)
    except KeyError as error:
        raise ValueError(f"malformed flow: {error} is missing") from None
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"malformed flow: {error}") from None
    _check(flow)
    return flow


class _Reader:
    def __init__(self, data: Any, arrays: Sequence[Any]) -> None:
        self._arrays = arrays
        self._origins: list[Origin] = []
        for fields in data["by"]:
            self._origins.append(self._origin(*fields))
        self._shapes = [plain_data.from_plain({"shape": sizes}) for sizes in data["shapes"]]

    def _origin(self, name: Any, kind: Any, line: Any, number: Any, origin: Any) -> Origin:
        if not isinstance(name, str) or not isinstance(kind, str) or type(number) is not int:
            raise ValueError(f"{plain_data.summarise(name)} is not an operation")
        if line is not None and (list(map(type, line)) != [str, int, str]):
            raise ValueError(f"{plain_data.summarise(line)} is not a line")
        before = None if origin is None else self._origins[_place(origin, self._origins)]
        return Origin(name, kind, None if line is None else tuple(line), number, before)

    def flow(self, data: Any, depth: int) -> Flow:
        if depth > _DEEPEST:
            raise ValueError(f"branches and loops are nested more than {_DEEPEST} deep")
        nodes: list[Node] = []
        for fields in data["nodes"]:
            nodes.append(self._node(fields, nodes, depth))
        for node, fields in zip(nodes, data["nodes"], strict=True):
            node.inputs = tuple([self._value(nodes, *source) for source in fields["in"]])
            node.controls = tuple([nodes[_place(place, nodes)] for place in fields.get("after", ())])
        _check_order(nodes)
        feeds = tuple([nodes[_place(place, nodes)] for place in data["feeds"]])
        fetches = tuple([self._value(nodes, *source) for source in data["fetches"]])
        return Flow(nodes, feeds, fetches, tuple([nodes[_place(place, nodes)] for place in data["targets"]]))

    def _node(self, fields: Any, nodes: Sequence[Node], depth: int) -> Node:
        op, name = fields["op"], fields["name"]
        if not isinstance(op, str) or op not in REGISTRY:
            raise ValueError(
                f"this version of aioflow has no op {plain_data.summarise(op)}, which {plain_data.summarise(name)} is"
            )
        if not isinstance(name, str):
            raise ValueError(f"{plain_data.summarise(name)} is not a name")
        definition = REGISTRY[op]
        attrs = {key: self._attr(value) for key, value in fields.get("attr", {}).items()}
        wanted = {param.name for param in definition.params if param.role == "attr"}
        if strange := attrs.keys() - wanted:
            unknown = ", ".join(map(plain_data.summarise, strange))
            raise ValueError(f"{plain_data.summarise(name)}: this version of aioflow's {op} has no attribute {unknown}")
        blocks = [Block(self.flow(block, depth + 1), tuple(block["takes"])) for block in fields.get("blocks", ())]
        specs = [self._spec(spec) for spec in fields["out"]]
        origin: Any = self._origins[_place(fields["by"], self._origins)]
        made = Node(origin, definition, name, (), (), attrs, specs, tuple(blocks))
        made.at_home = fields.get("home", False) is True
        return made

    def _attr(self, data: Any) -> Any:
        if isinstance(data, dict) and data.keys() == {"beside"}:
            return self._arrays[_place(data["beside"], self._arrays)]
        return plain_data.from_plain(data)

    def _spec(self, data: Any, depth: int = 0) -> Spec:
        if depth > _DEEPEST:
            raise ValueError(f"lists and handles are nested more than {_DEEPEST} deep")
        kind, content, *rest = data
        if kind == "list":
            size, dynamic, clear, infer = rest
            if not (size is None or (type(size) is int and size >= 0)) or {dynamic, clear, infer} - {True, False}:
                raise ValueError(f"{plain_data.summarise(rest)} is not the size of a list, followed by three booleans")
            (element,) = [self._spec(item, depth + 1) for item in content]
            return ListSpec(element, size, dynamic_size=dynamic, clear_after_read=clear, infer_shape=infer)
        if kind == "resource" and isinstance(content, list):
            return ResourceSpec(tuple([self._spec(item, depth + 1) for item in content]))
        dtype = plain_data.from_plain({"dtype": kind})
        return Spec(dtype, self._shapes[_place(content, self._shapes)], _known(*rest))

    @staticmethod
    def _value(nodes: Sequence[Node], place: Any, index: Any) -> Value:
        node = nodes[_place(place, nodes)]
        return Value(node, _place(index, node.output_specs))


def _place(place: Any, among: Sequence[Any]) -> int:
    if type(place) is not int or not 0 <= place < len(among):
        raise ValueError(f"{plain_data.summarise(place)} is not an index of {len(among)} entries")
    return place


def _known(data: Any = None) -> Any:
    """Return the known part of a small integer value."""
    values = data if isinstance(data, list) else [data]
    if not all(value is None or type(value) is int for value in values):
        raise ValueError(f"{plain_data.summarise(data)} is not a known value: an integer, or a list of those and None")
    return tuple(data) if isinstance(data, list) else data


def _check_order(nodes: Sequence[Node]) -> None:
    seen: set[Node] = set()
    for node in nodes:
        for source in (*[source for source, _ in node.inputs], *node.controls):
            if source not in seen and not is_back_edge(source, node):
                raise ValueError(f"{node.name!r} needs {source.name!r}, which comes later")
        seen.add(node)


# Types


def _check(flow: Flow) -> None:
    """ValueError unless the inputs and outputs of every node follow the rule of its op. Kernels rely on that."""
    for node in flow.nodes:
        try:
            check_arity(node.definition, len(node.inputs))
            check_attributes(node.definition, node.attrs)
            if node.blocks:
                _check_blocks(node)
            else:
                _check_rule(node)
        except Exception as error:  # a rule gets arguments that no graph would pass
            raise ValueError(f"{plain_data.summarise(node.name)} ({node.definition.name}): {error}") from None


def _check_rule(node: Node) -> None:
    wanted = [param.name for param in node.definition.params if param.role == "attr"]
    if missing := [name for name in wanted if name not in node.attrs]:
        raise ValueError(f"attribute {', '.join(missing)} is missing")
    found = node.definition.infer(node.input_specs, node.attrs)
    if node.definition.name != "no_records":  # an empty list of any dtype
        node.output_specs = _agreed("it makes", found, node.output_specs)


def _agreed(what: str, found: Sequence[Spec], stated: Sequence[Spec]) -> list[Spec]:
    """Return the stated Specs, with the found handles. ValueError unless the dtypes are equal."""
    if len(found) != len(stated) or not all(map(_agree, found, stated)):
        shown, said = [", ".join(map(str, specs[:8])) or "nothing" for specs in (found, stated)]
        raise ValueError(f"{what} {shown}, not {said}")
    return [ours if _is_handle(ours) else theirs for ours, theirs in zip(found, stated, strict=True)]


def _agree(found: Spec, stated: Spec) -> bool:
    if isinstance(found, ListSpec):
        return isinstance(stated, ListSpec) and _agree(found.element, stated.element)
    return found.dtype is stated.dtype and not (_is_handle(found) and isinstance(stated, ListSpec))


def _is_handle(spec: Spec) -> bool:
    return isinstance(spec, ResourceSpec) and not isinstance(spec, ListSpec)


def _check_blocks(node: Node) -> None:
    """ValueError unless the blocks of a branch or loop fit its inputs and outputs."""
    if node.definition.name not in ("cond", "while_loop"):
        raise ValueError("it runs no blocks")
    if len(node.blocks) != 2 and not (node.attrs.get("limited") and len(node.blocks) == 1):
        raise ValueError(f"it has {len(node.blocks)} blocks")
    loops = node.definition.name == "while_loop"
    given = _given_in_loop(node) if loops else list(node.input_specs)
    for block in node.blocks:
        taken = [given[_place(place, given)] for place in block.takes]
        specs = _agreed("a block takes", taken, [argument.output_specs[0] for argument in block.flow.feeds])
        for argument, spec in zip(block.flow.feeds, specs, strict=True):
            argument.output_specs = [spec]
        _check(block.flow)
    made = [[value.spec for value in block.flow.fetches] for block in node.blocks]
    if loops:
        _check_loop(node, *made)
    else:
        _agreed("it takes", node.input_specs[:1], [_BOOL])
        for outputs in made:
            node.output_specs = _agreed("a branch makes", outputs, node.output_specs)


def _given_in_loop(node: Node) -> list[Spec]:
    """Return the Specs of the arguments of a loop's blocks, by the number of the input."""
    first, count, replays = (int(node.attrs[name]) for name in ("limited", "variables", "replays"))
    inputs, last = node.input_specs, first + count
    if min(count, replays) < 0 or last + replays > len(inputs) or len(node.output_specs) <= count:
        raise ValueError(
            f"{len(inputs)} inputs and {len(node.output_specs)} outputs are not those of {count} variables"
        )
    _agreed("a loop with a limit takes", inputs[:first], [_INT] * first)
    elements = [ListSpec.check(spec).element for spec in inputs[last : last + replays]]
    return [*inputs[:last], *elements, *inputs[last + replays :]]


def _check_loop(node: Node, *made: Sequence[Spec]) -> None:
    first, count = int(node.attrs["limited"]), node.attrs["variables"]
    started = _agreed("it starts with", node.input_specs[first : first + count], node.output_specs[:count])
    outputs = [*started, *node.output_specs[count:]]
    _agreed("it counts in", [_INT], outputs[count : count + 1])
    records = [ListSpec.check(spec).element for spec in outputs[count + 1 :]]
    *conditions, body = made
    _agreed("its body makes", body, [*outputs[:count], *records])
    for condition in conditions:
        _agreed("its condition makes", condition, [_BOOL])
    node.output_specs = outputs
