"""The records of a loop with many of them: rows of one Python list, so that few lines of source name them.

    r0 = [[] for _ in range(300)]                before the loop that records
        t5, = await k7(ctx, r0, v0)              a piece of its body, with a line `a0[17].append(t9)` for each record
    ...
        v1, = await k9(ctx, r0, v1)              a piece of the loop that replays, with lines `t3 = a0[17].pop()`

Records that only one later loop of the block replays stay in that list. The others become lists of tensors after the
loop. With a name of its own in the source of the loop, each record would take Python's compiler 40 μs.
"""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from aioflow.plan.guards import Guards
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.blocks import Code, Row, Statement, Structured

FEW: Final = 16
"""The most records that have names of their own, which are quicker than rows."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Adds a value to a record, in each iteration.

    Attributes:
        node: the loop.
        value: the value.
        row: the record.
        swaps: whether the value moves to host memory.
    """

    node: Node
    value: Value
    row: Row
    swaps: bool
    results: Sequence[Value] = ()
    nodes: Sequence[Node] = ()
    fresh = False
    out = False

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return self.value, self.row.rows


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Takes the last value of a record, in each iteration.

    Attributes:
        node: the loop.
        results: the value; none if the loop does not read it.
        row: the record.
        elements: the record as an input of the loop.
    """

    node: Node
    results: tuple[Value, ...]
    row: Row
    elements: Value
    nodes: Sequence[Node] = ()
    fresh = False
    out = False

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return (self.row.rows,)


def records_of(node: Node) -> Sequence[Value]:
    """The results of a loop that are records."""
    return [Value(node, index) for index in range(node.attrs["variables"] + 1, len(node.output_specs))]


def replays_of(node: Node) -> Sequence[Value]:
    """The inputs of a loop that are records to replay."""
    first = int(node.attrs["limited"]) + node.attrs["variables"]
    return node.inputs[first : first + node.attrs["replays"]]


def rows_of_records(loop: Structured) -> Mapping[Value, Row]:
    """The rows of the records of a loop, the shared ones first; none if the records have names of their own."""
    records = records_of(loop.node)
    if len(records) <= FEW or has_branches(loop.codes[-1]):
        return {}
    return _rows(loop.node, sorted(records, key=lambda value: value not in loop.rows))


def _rows(loop: Node, records: Sequence[Value]) -> Mapping[Value, Row]:
    """The rows of records of a loop in this order."""
    return {value: Row(Value(loop, len(loop.output_specs)), place) for place, value in enumerate(records)}


def rows_of_replays(loop: Structured) -> Sequence[Row]:
    """The row of each record that a loop replays; none if the records have names of their own."""
    replays = replays_of(loop.node)
    is_shared = any(value in loop.rows for value in replays)
    if not is_shared and (len(replays) <= FEW or has_branches(loop.codes[-1])):
        return ()
    own, places = Value(loop.node, len(loop.node.output_specs) + 1), itertools.count()
    return [loop.rows[value] if value in loop.rows else Row(own, next(places)) for value in replays]


def with_records(
    statements: Sequence[Statement], recorded: Sequence[Recorded], replayed: Sequence[Replayed]
) -> Sequence[Statement | Recorded | Replayed]:
    """The statements of a body that records values as soon as it has made them, and takes them when it reads them."""
    made = {value for each in statements for value in each.results}
    kept = collections.defaultdict(list)
    for each in recorded:
        kept[each.value if each.value in made else None].append(each)
    ordered: list[Statement | Recorded | Replayed] = [*kept[None]]
    for statement in statements:
        ordered += [statement, *[each for value in statement.results for each in kept[value]]]
    read = {value for each in ordered for value in each.inputs}
    waiting = {value: each for each in replayed for value in each.results if value in read}
    found: list[Statement | Recorded | Replayed] = [each for each in replayed if read.isdisjoint(each.results)]
    for member in ordered:
        found += [waiting.pop(value) for value in dict.fromkeys(member.inputs) if value in waiting]
        found.append(member)
    return found


def with_shared_rows(statements: Sequence[Any], outputs: Collection[Value]) -> Sequence[Any]:
    """The statements of a block; each loop with many records shares those that only one later loop replays with it."""
    readers = collections.defaultdict(list)
    for statement in statements:
        for value in statement.inputs:
            readers[value].append(statement)
    alone = {value: found[0] for value, found in readers.items() if len(found) == 1}
    for value in outputs:
        alone.pop(value, None)
    rows: dict[Any, dict[Value, Row]] = collections.defaultdict(dict)
    for loop in filter(_is_free_loop, statements):
        shared = _shared(loop, alone)
        if shared:
            for each in (loop, alone[shared[0]]):
                rows[each].update(_rows(loop.node, shared))
    return [dataclasses.replace(each, rows=rows[each]) if each in rows else each for each in statements]


def _is_free_loop(statement: Any) -> bool:
    """Whether it is a loop that may share records and does not yet."""
    is_loop = isinstance(statement, Structured) and statement.node.definition.name == "while_loop"
    return is_loop and not statement.rows and not has_branches(statement.codes[-1])


def _shared(loop: Structured, readers: Mapping[Value, Any]) -> Sequence[Value]:
    """The records of a loop that the same other loop replays, and no other statement reads; `readers` are lone ones."""
    if not rows_of_records(loop):
        return ()
    found = [(value, readers[value]) for value in records_of(loop.node) if value in readers]
    replays = {reader: set(replays_of(reader.node)) for reader in {each for _, each in found if _is_free_loop(each)}}
    pairs = [(value, reader) for value, reader in found if value in replays.get(reader, ())]
    return [value for value, reader in pairs if reader is pairs[0][1]]


def has_branches(code: Code) -> bool:
    """Whether values of a block may be dead in a branch."""
    return bool(Guards([statement.node for statement in code.statements]))
