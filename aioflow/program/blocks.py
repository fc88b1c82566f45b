"""Branches and loops as statements of a region: they hold the statements that Python's `if` and `while` will hold."""

import dataclasses
from collections.abc import Mapping, Sequence

from aioflow.plan import op_cost
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.fuse import Bound, Chain, fuse


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


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Structured:
    """A branch or loop.

    Attributes:
        node: its node.
        codes: the blocks of the node.
        seconds: the estimated time of its kernels if each of them runs once.
    """

    node: Node
    codes: tuple[Code, ...]
    seconds: float = dataclasses.field(init=False)
    fresh = False
    out = False

    def __post_init__(self) -> None:
        once = sum(seconds_of(statement) for code in self.codes for statement in code.statements)
        object.__setattr__(self, "seconds", once)

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return self.node.inputs

    @property
    def results(self) -> Sequence[Value]:
        """What it makes."""
        return [Value(self.node, index) for index in range(len(self.node.output_specs))]

    def chained(self) -> "Structured":
        """The same with element-wise runs in its blocks as chains."""
        codes = [Code(chained(code.statements, code.outputs), code.arguments, code.outputs) for code in self.codes]
        return Structured(self.node, tuple(codes))


Statement = Bound | Chain | Structured


def seconds_of(statement: Statement) -> float:
    """The estimated time of a statement."""
    if isinstance(statement, Structured):
        return statement.seconds
    return sum(op_cost.seconds(node, node.input_specs) for node in statement.nodes)


def chained(statements: Sequence[Statement], wanted: Sequence[Value]) -> list[Statement]:
    """The same statements with runs of element-wise ones as chains, inside branches and loops too."""
    nested = {id(s): s.chained() for s in statements if isinstance(s, Structured)}
    return [nested.get(id(s), s) for s in fuse(statements, wanted)]
