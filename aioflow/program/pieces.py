"""Divides a long block of a region into pieces, each compiled by itself into a coroutine that the block awaits.

    t3, = await k7(ctx, a0)                      statements 1 to 64
    given = [t3]
    del t3
    t9, = await k8(ctx, given, a1)               statements 65 to 128

CPython's compiler holds the interpreter, and with it the event loop, for all of the source that it is given: 10 to
30 μs for each statement, 5 μs for an expression. It is given a piece at a time. A call costs about 0.2 μs.

A value that dies in a piece is handed over in a list that the piece empties, so that it is freed as early as in one
piece. Updates of a few elements stay in the block, since they may change an array of it in place, and so do all readers
of a loop's variable that is changed so.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aioflow.plan.passes.flow import Node, Value
from aioflow.program.blocks import HeavyRun, Structured, seconds_of
from aioflow.program.capture import LaunchGroup, RegionStatement
from aioflow.program.fuse import Bound
from aioflow.program.loop_records import Recorded, Replayed

LONGEST: Final = 64.0
"""The most statements that Python compiles at once; expressions of scalar code count as eighths."""
_SCALAR: Final = 0.125
_LOOP: Final = 10.0
"""What a loop or branch counts beside its blocks."""
_VALUES: Final = 8
"""The inputs and results that count as a statement."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Statements of a block that are compiled by themselves.

    Attributes:
        members: the statements in order.
        inputs: the values that they read from outside.
        results: the values that others need.
    """

    members: tuple["Member", ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    fresh = False
    out = False

    @property
    def node(self) -> Node:
        """The node that stands for all of them."""
        return self.members[-1].node

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes."""
        return [node for member in self.members for node in _nodes_of(member)]

    @property
    def needs_iteration(self) -> bool:
        """Whether a kernel in it asks how often it has run, or waits."""
        everything = [inner.definition for node in self.nodes for inner in node.everything()]
        return any(definition.counted or definition.waits for definition in everything)

    @property
    def seconds(self) -> float:
        """The estimated time of its kernels."""
        return sum([seconds_within(member) for member in self.members])


Member = RegionStatement | Piece | Recorded | Replayed


def _nodes_of(member: Member) -> Sequence[Node]:
    return [member.node] if isinstance(member, Structured) else member.nodes


def seconds_within(statement: Member) -> float:
    """The estimated time for which a statement does not look at the clock."""
    if isinstance(statement, Piece):
        return statement.seconds
    unseen = (HeavyRun, LaunchGroup, Structured, Recorded, Replayed)
    return 0.0 if isinstance(statement, unseen) else seconds_of(statement)


def in_pieces(statements: Sequence[Member], outputs: Collection[Value], owned: Collection[Value]) -> list[Member]:
    """The statements, in pieces if they are too many for one compilation.

    Args:
        statements: those of a block, sources first.
        outputs: the values needed after them.
        owned: values whose readers stay in the block.
    """
    found: list[Member] = list(statements)
    while len(found) > 1 and sum(map(_length, found)) > LONGEST:
        runs = _runs(found, owned)
        if len(runs) == len(found):
            break
        last_reader = {value: number for number, run in enumerate(runs) for each in run for value in each.inputs}
        last_reader.update(dict.fromkeys(outputs, len(runs)))
        found = [_joined(run, number, last_reader) for number, run in enumerate(runs)]
    return found


def _length(statement: Member) -> float:
    """What a statement counts. The blocks of a loop or branch are in pieces by themselves."""
    if isinstance(statement, Structured):
        return _LOOP + sum([min(LONGEST, sum(map(_length, code.statements))) for code in statement.codes])
    if isinstance(statement, Bound) and statement.expression is not None:
        return _SCALAR
    return max(1.0, (len(statement.inputs) + len(statement.results)) / _VALUES)


def _runs(statements: Sequence[Member], owned: Collection[Value]) -> list[list[Member]]:
    """The statements in runs that are short enough; those that stay in the block are by themselves."""
    runs: list[list[Member]] = []
    length = LONGEST
    for statement in statements:
        own = LONGEST if _stays(statement, owned) else _length(statement)
        if length + own > LONGEST:
            runs.append([])
            length = 0.0
        runs[-1].append(statement)
        length += own
    return runs


def _stays(statement: Member, owned: Collection[Value]) -> bool:
    """Whether it may change an array in place that a piece could not, for the caller still refers to it."""
    return statement.node.definition.updates or any(value in owned for value in statement.inputs)


def _joined(run: Sequence[Member], number: int, last_reader: Mapping[Value, int]) -> Member:
    """The statements of the run of that number as one."""
    if len(run) == 1:
        return run[0]
    made = dict.fromkeys([value for each in run for value in each.results])
    inputs = dict.fromkeys([value for each in run for value in each.inputs if value not in made])
    return Piece(tuple(run), tuple(inputs), tuple([v for v in made if last_reader.get(v, number) > number]))
