"""Branches and loops as statements of a region: they hold the statements that Python's `if` and `while` will hold."""

import dataclasses
from collections.abc import Mapping, Sequence

from aioflow.fusion import Bound, Chain, fuse
from aioflow.passes.flow import Node, Value


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """What one block runs.

    Attributes:
        statements: in order.
        arguments: the block's arguments, by the input of its node that each of them is.
        outputs: what it makes.
    """

    statements: Sequence["Statement"]
    arguments: Mapping[int, Value]
    outputs: tuple[Value, ...]

    @property
    def nodes(self) -> list[Node]:
        """The nodes that run in it, those of blocks inside too."""
        return [node for statement in self.statements for node in statement.nodes]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Structured:
    """A branch or loop: `codes` are the blocks of its node."""

    node: Node
    codes: tuple[Code, ...]
    fresh = False
    out = False

    @property
    def nodes(self) -> list[Node]:
        """The nodes that run in its blocks."""
        return [node for code in self.codes for node in code.nodes]

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


def chained(statements: Sequence[Statement], wanted: Sequence[Value]) -> list[Statement]:
    """The same statements with runs of element-wise ones as chains, inside branches and loops too."""
    nested = {id(s): s.chained() for s in statements if isinstance(s, Structured)}
    return [nested.get(id(s), s) for s in fuse(statements, wanted)]


__all__ = ["Code", "Statement", "Structured", "chained"]
