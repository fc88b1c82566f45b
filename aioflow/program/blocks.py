"""Branches and loops as statements of a region: they hold the statements that Python's `if` and `while` will hold.

Estimates the cost of a group of nodes for the inputs of a run, with branches and loops.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from aioflow.kernels import known
from aioflow.plan import op_cost
from aioflow.plan.passes.flow import Node, Value
from aioflow.program import chains, scalars
from aioflow.program.fuse import Bound, Chain, fuse
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, Spec, TensorShape


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """The code of one block.

    Attributes:
        statements: the statements in order.
        arguments: the block's arguments, by the input of its node that each of them is.
        outputs: its outputs.
    """

    statements: Sequence["Statement"]
    arguments: Mapping[int, Value]
    outputs: tuple[Value, ...]


class Row(NamedTuple):
    """A record of a loop as one row of a Python list; see `loop_records`.

    Attributes:
        rows: the list, named as a value that no node makes.
        place: the number of the row.
    """

    rows: Value
    place: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Structured:
    """A branch or loop.

    Attributes:
        node: its node.
        codes: the blocks of the node.
        rows: the records that another loop of the same block shares with it as rows of a list.
        seconds: the estimated time of its kernels if each of them runs once.
    """

    node: Node
    codes: tuple[Code, ...]
    rows: Mapping[Value, Row] = dataclasses.field(default_factory=dict)
    seconds: float = dataclasses.field(init=False)
    fresh = False
    out = False

    def __post_init__(self) -> None:
        once = sum(seconds_of(statement) for code in self.codes for statement in code.statements)
        object.__setattr__(self, "seconds", once)

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return self._with_rows(self.node.inputs)

    @property
    def results(self) -> Sequence[Value]:
        """What it makes."""
        made = self._with_rows([Value(self.node, index) for index in range(len(self.node.output_specs))])
        return list(dict.fromkeys(made))

    def _with_rows(self, values: Sequence[Value]) -> Sequence[Value]:
        return [self.rows[value].rows if value in self.rows else value for value in values] if self.rows else values

    def chained(self) -> "Structured":
        """The same with element-wise runs in its blocks as chains."""
        codes = [Code(chained(code.statements, code.outputs), code.arguments, code.outputs) for code in self.codes]
        return Structured(self.node, tuple(codes))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HeavyRun:
    """Kernels between two transfers of a region that sends and receives; they may run on a compute thread.

    Attributes:
        members: the statements in order.
        inputs: the values that they read from outside.
        results: the values that others need.
        blocks: whether element-wise kernels are fused into chains on a thread.
    """

    members: tuple["Statement", ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    blocks: bool
    fresh = False
    out = False

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes."""
        return [node for member in self.members for node in nodes_of(member)]

    @property
    def node(self) -> Node:
        """The node that stands for all of them."""
        return self.nodes[-1]


Statement = Bound | Chain | Structured | HeavyRun


def nodes_of(statement: Statement) -> Sequence[Node]:
    """The nodes of a statement."""
    return [statement.node] if isinstance(statement, Structured) else statement.nodes


class Maker(Protocol):
    """A statement that makes values."""

    @property
    def fresh(self) -> bool:
        """Whether its results share no memory with its inputs."""

    @property
    def node(self) -> Node:
        """The node that stands for all of its nodes."""

    @property
    def results(self) -> Sequence[Value]:
        """What it makes."""


def may_be_overwritten(statement: Maker) -> bool:
    """Whether a later kernel may write into the only result: no other array shares its memory, and no peer reads it.

    An element that was taken is put back if the step is cancelled.
    """
    node = statement.node
    is_kept = node.attrs.get("lend") or (node.definition.waits and node.definition.name != "recv")
    return statement.fresh and len(statement.results) == 1 and not is_kept


def seconds_of(statement: Statement) -> float:
    """The estimated time of a statement."""
    if isinstance(statement, Structured):
        return statement.seconds
    if isinstance(statement, Bound) and statement.expression is not None:
        return scalars.SECONDS
    return sum(op_cost.seconds(node, node.input_specs) for node in statement.nodes)


def chained(statements: Sequence[Statement], wanted: Sequence[Value]) -> list[Statement]:
    """The same statements with runs of element-wise ones as chains, inside branches and loops too."""
    nested = {id(s): s.chained() for s in statements if isinstance(s, Structured)}
    return [nested.get(id(s), s) for s in fuse(statements, wanted, chains.begin)]


_FEW: Final = 8
_ITERATIONS: Final = 16
"""How often a loop is assumed to run."""
_MOST: Final = 1e12
"""The most runs that are assumed for a kernel, at any depth of loops."""
_PER_BYTE: Final = 5e-9
"""The assumed seconds of a kernel for each byte of a string that it reads."""


def estimate_for(nodes: Sequence[Node], inputs: Sequence[Value]) -> op_cost.Estimate:
    """A cost estimated at once if all sizes are known, else from the shapes of the first inputs of each size.

    The length of strings is known only once a run has inputs.
    """
    texts = texts_among(inputs)
    settled = all(spec.shape.is_fully_defined() for node in _leaves(nodes) for spec in node.output_specs)
    fixed = op_cost.total(_each(nodes, {}, infer=False)) if settled else None

    def estimate(arrays: Sequence[Array]) -> tuple[float, bool]:
        read = _PER_BYTE * sum([op_cost.text_bytes(arrays[place]) for place in texts])
        if fixed is not None:
            return (fixed[0] + read, fixed[1] or read > op_cost.BIG_KERNEL) if read else fixed
        specs = {value: _spec(array, value) for value, array in zip(inputs, arrays, strict=True)}
        return op_cost.total([*_each(nodes, specs, infer=True), (read, 1.0)])

    return estimate


def texts_among(inputs: Sequence[Value]) -> tuple[int, ...]:
    """The places of inputs that are strings; their length counts."""
    return tuple([place for place, value in enumerate(inputs) if value.spec.dtype is dtypes.string])


def numbers_among(nodes: Sequence[Node], inputs: Sequence[Value]) -> tuple[int, ...]:
    """Return the places of inputs whose values may decide the amount of work: sizes of results, iterations of loops."""
    open_ended = any(node.definition.name == "while_loop" for each in nodes for node in each.everything())
    if not open_ended and all(s.shape.is_fully_defined() for node in _leaves(nodes) for s in node.output_specs):
        return ()
    return tuple([place for place, value in enumerate(inputs) if _is_number(value.spec)])


def _is_number(spec: Spec) -> bool:
    """Whether it is an integer, or a few."""
    count = spec.shape.num_elements()
    return spec.dtype.is_integer and count is not None and count <= _FEW


def count_of(nodes: Sequence[Node]) -> float:
    """Return the number of kernels that run; infinity for a loop."""
    leaves = sum(1 for _ in _leaves(nodes))
    loops = any(inner.definition.name == "while_loop" for node in nodes for inner in node.everything())
    return float("inf") if loops else leaves


def has_branch(nodes: Sequence[Node]) -> bool:
    """Whether a node is a branch, or has one inside."""
    return any(inner.definition.name == "cond" for node in nodes for inner in node.everything())


def _leaves(nodes: Iterable[Node]) -> Iterable[Node]:
    return (inner for node in nodes for inner in node.everything() if not inner.blocks)


def _each(
    nodes: Iterable[Node], specs: dict[Value, Spec], infer: bool, times: float = 1.0
) -> Iterator[tuple[float, float]]:
    """The seconds of each kernel and its assumed number of runs; in a loop, that of the iterations."""
    for node in nodes:
        if node.blocks:
            rounds = _ITERATIONS if node.definition.name == "while_loop" else 1
            yield from _inside(node, specs, infer, times * rounds)
        elif node.definition.name != "argument":
            yield (_seconds(node, specs) if infer else op_cost.seconds(node, node.input_specs)), times


def _inside(node: Node, specs: dict[Value, Spec], infer: bool, times: float) -> Iterator[tuple[float, float]]:
    for block in node.blocks:
        for place, argument in block.arguments.items():
            given = specs.get(node.inputs[place])
            if given is not None and given.dtype is argument.output_specs[0].dtype:
                specs[Value(argument, 0)] = given
        yield from _each(block.flow.nodes, specs, infer, min(times, _MOST))


def _seconds(node: Node, specs: dict[Value, Spec]) -> float:
    """The estimate for a node whose inputs have these Specs; writes down those of its outputs."""
    inputs = [specs.get(value, value.spec) for value in node.inputs]
    try:
        outputs = node.definition.infer(inputs, node.attrs)
    except (TypeError, ValueError):  # the run will say so, at the node
        outputs = node.output_specs
    specs.update({Value(node, index): spec for index, spec in enumerate(outputs)})
    return op_cost.seconds(node, inputs, outputs)


def _spec(array: Array, value: Value) -> Spec:
    """The known part of an input: the shape, and for numbers also small values."""
    if value.spec.dtype is dtypes.resource:
        return value.spec
    if value.spec.dtype is dtypes.string:
        return Spec(dtypes.string, TensorShape(list(np.shape(array))))
    return known.of(array)
