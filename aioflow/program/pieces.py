"""Divides a long block of a region into pieces, each compiled by itself into a coroutine that the block awaits.

    await k7(ctx, w, a0)                         statements 1 to 64
    await k8(ctx, w, a1)                         statements 65 to 128

CPython's compiler holds the interpreter, and with it the event loop, for all of the source that it is given: 10 to
30 μs for each statement, 5 μs for an expression. It is given a piece at a time. A call costs about 0.2 μs.

The pieces share the values that one makes and another reads, see `shared_values`; the last reader deletes it. Readers
of a loop's variable that is changed in place stay in the block.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from aioflow.plan.passes.flow import Node, Value
from aioflow.program.blocks import HeavyRun, Structured, seconds_of
from aioflow.program.capture import LaunchGroup, RegionStatement
from aioflow.program.fuse import Bound
from aioflow.program.loop_records import Recorded, Replayed

LONGEST: Final = 64.0
"""The most statements that Python compiles at once; expressions of scalar code count less."""
_SCALAR: Final = 0.3
_LOOP: Final = 10.0
"""What a loop or branch counts beside its blocks."""
FEW_VARIABLES: Final = 64
"""The most variables of a loop that have names of their own, which are quicker than shared values."""
_VALUES: Final = 8
"""The inputs and results that count as a statement."""
_WIDE: Final = 16.0
"""What a statement counts at least that shares all its values."""


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


def is_long(statements: Sequence[Member]) -> bool:
    """Whether a block is too long for one compilation."""
    return sum(map(_length, statements)) > LONGEST


def in_pieces(
    statements: Sequence[Member], outputs: Collection[Value], owned: Collection[Value]
) -> tuple[list[Member], list[Value]]:
    """The statements of a long block in pieces, and the values that they share.

    Args:
        statements: those of a block, sources first.
        outputs: the values needed after them.
        owned: values whose readers stay in the block.
    """
    found, shared, length = list(statements), list[Value](), _length
    while sum(map(length, found)) > LONGEST:
        runs = _runs(found, owned, length)
        if length is _length_of_shared and len(runs) == len(found):
            break
        last_reader = {value: number for number, run in enumerate(runs) for each in run for value in each.inputs}
        last_reader.update(dict.fromkeys(outputs, len(runs)))
        found = [_joined(run, number, last_reader) for number, run in enumerate(runs)]
        shared = shared or [value for each in found for value in each.results]
        length = _length_of_shared
    return found, shared


def _length(statement: Member) -> float:
    """What a statement counts. The blocks of a loop or branch are in pieces by themselves."""
    if isinstance(statement, Structured):
        if statement.node.attrs.get("variables", 0) > FEW_VARIABLES:
            return 2 * LONGEST
        return _LOOP + sum([min(LONGEST, sum(map(_length, code.statements))) for code in statement.codes])
    if isinstance(statement, Bound) and statement.expression is not None:
        return _SCALAR
    if isinstance(statement, Piece):
        return 1.0
    return max(1.0, (len(statement.inputs) + len(statement.results)) / _VALUES)


def _length_of_shared(statement: Member) -> float:
    """What a statement counts of which all values are shared."""
    return _length(statement) if isinstance(statement, Structured) else min(1.0, _length(statement))


def _runs(
    statements: Sequence[Member], owned: Collection[Value], length: Callable[[Member], float]
) -> list[list[Member]]:
    """The statements in runs that are short enough; those that stay in the block, or are wide, are by themselves."""
    runs: list[list[Member]] = []
    so_far = LONGEST
    for statement in statements:
        own = length(statement)
        if _stays(statement, owned) or own > _WIDE:
            own = LONGEST
        if so_far + own > LONGEST:
            runs.append([])
            so_far = 0.0
        runs[-1].append(statement)
        so_far += own
    return runs


def _stays(statement: Member, owned: Collection[Value]) -> bool:
    """Whether it may change the array of a loop's variable in place, to which the block still refers."""
    return any(value in owned for value in statement.inputs)


def _joined(run: Sequence[Member], number: int, last_reader: Mapping[Value, int]) -> Member:
    """The statements of the run of that number as one."""
    if len(run) == 1:
        return run[0]
    made = dict.fromkeys([value for each in run for value in each.results])
    inputs = dict.fromkeys([value for each in run for value in each.inputs if value not in made])
    return Piece(tuple(run), tuple(inputs), tuple([v for v in made if last_reader.get(v, number) > number]))
