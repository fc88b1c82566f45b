"""The source of branches and loops inside a region: Python's own `if`, `while` and `for`.

    v0, v1 = t3, a0                              the loop variables
    r0 = []                                      a record, for the gradient
    i0 = 0
    while True:
        for i0 in range(i0, i0 + 32):            as many iterations as need no look at the clock
            if not v0 < c1: break
            t5 = k5(v0)
            r0.append(t5)
            v0 = t5
        else:
            i0 += 1
            if now() > ctx.due: await pause()
            continue
        break

A `for` counts the iterations faster than Python's operators. On a compute thread `if stop.asked: stop.check()` takes
the place of the look at the clock, the same check as before each kernel.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from aioflow.plan.guards import TRANSFERS
from aioflow.plan.passes.flow import Value
from aioflow.plan.passes.recover_loops import spans_devices
from aioflow.program.blocks import Code, Structured
from aioflow.program.capture import RegionStatement
from aioflow.program.fuse import Bound
from aioflow.program.loop_buffers import changed_in_place
from aioflow.program.loop_records import (
    Recorded,
    Replayed,
    has_branches,
    records_of,
    replays_of,
    rows_of_records,
    rows_of_replays,
    with_records,
)
from aioflow.program.pieces import FEW_VARIABLES
from aioflow.program.scalars import ScalarValues
from aioflow.program.shared_values import MANY, NAME, SharedValues
from aioflow.tensors.dtypes import ResourceSpec

_CHECK_EVERY: Final = 50e-6
"""Estimated seconds of iterations between two looks at the clock."""
_MOST: Final = 1 << 10
_MADE: Final = ("t", NAME)
"""How the names of values begin that a block makes."""
Loops = tuple[str, ...]


class Writer(Protocol):
    """The part of a region's source that this module uses."""

    texts: dict[Value, str]
    chosen: dict[Value, str]
    contexts: dict[Loops, str]

    @property
    def shared(self) -> SharedValues:
        """The values that pieces of it share."""

    @property
    def on_thread(self) -> bool:
        """Whether the region runs on a compute thread, and not on the loop."""

    @property
    def scalars(self) -> ScalarValues:
        """The values kept as NumPy scalars."""

    @property
    def length(self) -> int:
        """The number of lines."""

    def line(self, depth: int, text: str, blamed: RegionStatement | None = None, loops: Loops = ()) -> None:
        """Write a line."""

    def counter(self, loop: str) -> str:
        """A new name for the number of an iteration."""

    def fresh(self, kind: str) -> str:
        """A new name."""

    def block(
        self,
        statements: Sequence[RegionStatement | Recorded | Replayed],
        outputs: Sequence[Value],
        depth: int,
        loops: Loops,
        *,
        owned: Sequence[Value] = (),
    ) -> None:
        """Write statements."""

    def statement(self, position: int, statement: RegionStatement, lives: Any, depth: int, loops: Loops) -> None:
        """Write one statement."""

    def context(self, loops: Loops) -> str:
        """The context of a kernel in an iteration of these loops."""

    def drop(self, depth: int, values: Sequence[Value]) -> None:
        """Drop values."""

    def delete(self, depth: int, texts: Iterable[str]) -> None:
        """Delete names."""

    def listed(self, values: Iterable[Value]) -> list[str]:
        """The values as items of a list."""

    def assignment(self, targets: Sequence[str], items: str) -> str:
        """The statement that gives these names the items of a value."""

    def constant(self, kind: str, value: Any) -> str:
        """The name of a constant."""

    def droppable(self, values: Sequence[Value]) -> list[str]:
        """The names of those values that are dropped."""

    def expression(self, b: Bound) -> str:
        """The expression of a node of scalar code."""

    def target(self, value: Value, lives: Any) -> str:
        """A name for a value that is made now."""

    def kernel(self, b: Bound) -> str:
        """The name of the kernel of a statement."""


def write_structured(source: Writer, statement: Structured, lives: Any, depth: int, loops: Loops) -> None:
    """Write a branch or loop and give its results their names."""
    if statement.node.definition.name == "cond":
        _write_branch(source, statement, lives, depth, loops)
    else:
        _Loop(source, statement, loops).write(lives, depth)


def _write_branch(source: Writer, statement: Structured, lives: Any, depth: int, loops: Loops) -> None:
    inputs = statement.inputs
    results = [source.target(value, lives) for value in statement.results]
    for head, code in zip((f"if {source.texts[inputs[0]]}:", "else:"), statement.codes, strict=True):
        for place, argument in code.arguments.items():
            source.texts[argument] = source.texts[inputs[place]]
        source.line(depth, head, statement, loops)
        source.block(code.statements, code.outputs, depth + 1, loops)
        _assign(source, code, dict(zip(results, code.outputs, strict=True)), depth + 1)


def _assign(source: Writer, code: Code, made: Mapping[str, Value], depth: int) -> None:
    """Assign the outputs of a block to names, all at once, and drop the names inside the block."""
    changed = {name: value for name, value in made.items() if name not in ("_", source.texts[value])}
    if not changed:
        source.line(depth, "pass")
        return
    _write_values(source, list(changed), list(changed.values()), depth)
    inside = {source.texts[value] for value in code.outputs if value not in code.arguments.values()}
    large = {
        source.texts[value] for value in code.outputs if isinstance(value.spec, ResourceSpec) or value.spec.rank != 0
    }
    source.delete(depth, sorted(text for text in inside & large if text[0] in _MADE and text not in made))


def _write_values(source: Writer, names: Sequence[str], values: Sequence[Value], depth: int) -> None:
    """Give names the values, all at once."""
    items = source.listed(values)
    if len(names) == 1:
        source.line(depth, f"{names[0]} = {items[0]}")
    elif names:
        source.line(depth, source.assignment(names, f"({', '.join(items)},)"))


class _Loop:
    """The writing of one loop."""

    def __init__(self, source: Writer, statement: Structured, loops: Loops) -> None:
        attrs = statement.node.attrs
        self._source = source
        self._statement = statement
        self._limited = bool(attrs["limited"])
        self._swaps = bool(attrs["swap_memory"])
        self._first = int(attrs["limited"])
        self._count: int = attrs["variables"]
        self._replays: int = attrs["replays"]
        *conditions, self._body = statement.codes
        self._condition = conditions[0] if conditions else None
        self._changed = [] if has_branches(self._body) else changed_in_place(self._body, self._first, self._count)
        is_wide = self._count > FEW_VARIABLES
        self._names = [source.shared.fresh() if is_wide else source.fresh("v") for _ in range(self._count)]
        self._record_rows = rows_of_records(statement)
        self._replay_rows = rows_of_replays(statement)
        self._lists = [] if self._replay_rows else [source.fresh("l") for _ in range(self._replays)]
        self._elements: list[str] = []
        self._records = [] if self._record_rows else [source.fresh("r") for _ in self._body.outputs[self._count :]]
        self._rows: list[str] = []
        """The names of lists with rows of this loop alone."""
        self._counter = source.counter(statement.node.name)
        self._limit = source.fresh("n")
        self._loops = (*loops, self._counter)

    def write(self, lives: Any, depth: int) -> None:
        """Write it, and name its results."""
        self._write_start(depth)
        self._write_head(depth)
        if spans_devices(self._statement.node):
            self._write_context(depth + 2)
        if self._condition is not None:
            self._write_condition(self._condition, depth + 2)
        self._write_iteration(depth + 2)
        self._write_end(depth)
        self._write_results(lives, depth)

    def _input(self, place: int) -> str:
        return self._source.texts[self._statement.node.inputs[place]]

    def _write_start(self, depth: int) -> None:
        line = self._source.line
        if self._limited:
            line(depth, f"{self._limit} = int({self._input(0)})", self._statement)
        starts = self._statement.node.inputs[self._first : self._first + self._count]
        _write_values(self._source, self._names, starts, depth)
        for index, name in enumerate(self._lists, self._first + self._count):
            line(depth, f"{name} = elements({self._input(index)})", self._statement)
        for name in self._records:
            line(depth, f"{name} = []")
        self._write_rows(depth)
        for code in self._statement.codes:
            self._name_arguments(code)

    def _write_rows(self, depth: int) -> None:
        """Write the lists that rows of records are in."""
        source, node = self._source, self._statement.node
        own = {row.rows for row in self._replay_rows} - {row.rows for row in self._statement.rows.values()}
        for rows in own:
            name = source.texts[rows] = source.fresh("l")
            lists = source.listed([value for value in replays_of(node) if value not in self._statement.rows])
            source.line(depth, f"{name} = [*map(elements, ({', '.join(lists)},))]", self._statement)
            self._rows.append(name)
        for rows in {row.rows for row in self._record_rows.values()}:
            name = source.texts[rows] = source.fresh("r")
            source.line(depth, f"{name} = [[] for _ in range({len(self._record_rows)})]")

    def _name_arguments(self, code: Code) -> None:
        own = dict(enumerate(self._names, self._first))
        for place, argument in code.arguments.items():
            listed = self._is_listed(place)
            if listed and self._replay_rows:
                continue
            name = self._source.fresh("p") if listed else own.get(place) or self._input(place)
            self._source.texts[argument] = name
            if listed:
                self._elements.append(name)

    def _is_listed(self, place: int) -> bool:
        """Whether the input at a place is a record to replay."""
        return 0 <= place - self._first - self._count < self._replays

    def _write_head(self, depth: int) -> None:
        line, counter, limit = self._source.line, self._counter, self._limit
        end = f"{counter} + {self._between_looks()}"
        line(depth, f"{counter} = 0")
        if self._condition is None:
            line(depth, f"while {counter} < {limit}:")
            end = f"min({end}, {limit})"
        else:
            line(depth, "while True:")
        line(depth + 1, f"for {counter} in range({counter}, {end}):")

    def _write_context(self, depth: int) -> None:
        """Write the context of an iteration, for the transfers in it."""
        here = self._source.contexts[self._loops] = self._source.fresh("h")
        self._source.line(depth, f"{here} = ctx.at((*ctx.iteration, {', '.join(self._loops)}))")

    def _between_looks(self) -> int:
        """The number of iterations between two looks at the clock."""
        every = 1
        while every < _MOST and 2 * every * self._statement.seconds < _CHECK_EVERY:
            every *= 2
        return every

    def _write_condition(self, code: Code, depth: int) -> None:
        """Write the condition; its last operator, if it is scalar code, in the test itself."""
        source, last = self._source, code.statements[-1] if code.statements else None
        may_be_dead = has_branches(code)
        is_last = isinstance(last, Bound) and code.outputs[0] in last.results
        if isinstance(last, Bound) and last.expression is not None and is_last and not may_be_dead:
            source.block(code.statements[:-1], last.inputs, depth, self._loops)
            test = f"({source.expression(last)})"
        else:
            source.block(code.statements, code.outputs, depth, self._loops)
            test = source.texts[code.outputs[0]]
        enough = f"{self._counter} >= {self._limit} or " if self._limited else ""
        if not spans_devices(self._statement.node):
            source.line(depth, f"if {enough}not {test}: break", self._statement, self._loops)
            return
        dead = f"{test} is DEAD or " if may_be_dead else ""
        source.line(depth, f"if {dead}not {test}:", self._statement, self._loops)
        _write_dead(source, self._body.statements, depth + 1, self._loops)
        source.line(depth + 1, "break")

    def _write_iteration(self, depth: int) -> None:
        source, body = self._source, self._body
        for place, name in enumerate(self._lists, self._first + self._count):
            self._write_pop(depth, place, name)
        if not has_branches(body):
            source.chosen.update(self._overwritten())
        owned = [body.arguments[self._first + number] for number in self._changed]
        code = self._code()
        source.block(self._statements(), code.outputs, depth, self._loops, owned=owned)
        for name, value in zip(self._records, code.outputs[self._count :], strict=True):
            kept = f"put_away(ctx.device, {source.texts[value]})" if self._swaps else source.texts[value]
            source.line(depth, f"{name}.append({kept})")
        _assign(source, code, dict(zip(self._names, code.outputs, strict=False)), depth)

    def _code(self) -> Code:
        """The code of the body, without the arguments and outputs that are in rows."""
        body, count = self._body, self._count if self._record_rows else None
        arguments = {
            at: value for at, value in body.arguments.items() if not (self._replay_rows and self._is_listed(at))
        }
        return Code(body.statements, arguments, body.outputs[:count])

    def _statements(self) -> Sequence[RegionStatement | Recorded | Replayed]:
        """The statements of the body and those of records in rows."""
        node, body = self._statement.node, self._body
        made = zip(self._record_rows and records_of(node), body.outputs[self._count :], strict=False)
        recorded = [Recorded(node, value, self._record_rows[record], self._swaps) for record, value in made]
        replayed = []
        for place, row in enumerate(self._replay_rows, self._first + self._count):
            results = (body.arguments[place],) if place in body.arguments else ()
            replayed.append(Replayed(node, results, row, node.inputs[place]))
        return with_records(body.statements, recorded, replayed)

    def _write_pop(self, depth: int, place: int, name: str) -> None:
        source, popped = self._source, f"{name}.pop()"
        argument = self._body.arguments.get(place)
        if argument is not None:
            elements = self._statement.node.inputs[place]
            unpacked = argument in source.scalars and not source.scalars.are_popped(elements)
            popped = f"{source.texts[argument]} = {popped}{'[()]' if unpacked else ''}"
        source.line(depth, popped, self._statement)

    def _overwritten(self) -> dict[Value, str]:
        """The new values of variables that scalar code can write at once, since nothing reads the old ones after it."""
        body, found = self._body, {}
        made = {each.results[0]: at for at, each in enumerate(body.statements) if _is_expression(each)}
        readers = {value: at for at, each in enumerate(body.statements) for value in each.inputs}
        for number, (name, value) in enumerate(zip(self._names, body.outputs, strict=False)):
            old = body.arguments.get(self._first + number)
            alone = body.outputs.count(value) == 1 and old not in body.outputs
            if value in made and alone and (old is None or readers.get(old, -1) <= made[value]):
                found[value] = name
        return found

    def _write_end(self, depth: int) -> None:
        line, source = self._source.line, self._source
        look = "if stop.asked: stop.check()" if source.on_thread else "if now() > ctx.due: await pause()"
        if self._condition is None:
            line(depth + 1, f"{self._counter} += 1")
            line(depth + 1, look, self._statement, self._loops)
            return
        line(depth + 1, "else:")
        line(depth + 2, f"{self._counter} += 1")
        line(depth + 2, look, self._statement, self._loops)
        line(depth + 2, "continue")
        line(depth + 1, "break")

    def _write_results(self, lives: Any, depth: int) -> None:
        source, node = self._source, self._statement.node
        results = [Value(node, index) for index in range(len(node.output_specs))]
        unused = self._write_variables(results[: self._count], lives, depth)
        count = source.target(results[self._count], lives)
        if count != "_":
            source.line(depth, f"{count} = as_int32({self._counter})")
        for name, value in zip(self._records, records_of(node), strict=False):
            made = source.target(value, lives)
            if made != "_":
                source.line(depth, f"{made} = listed({name})")
        self._write_listed(lives, depth)
        source.delete(depth, [*unused, *self._records, *self._lists, *self._rows])
        if self._elements:  # unbound if there was no iteration
            source.line(depth, f"{' = '.join(self._elements)} = None")

    def _write_listed(self, lives: Any, depth: int) -> None:
        """Write the lists of tensors of the records in rows that no other loop shares."""
        source, shared = self._source, len(set(self._record_rows) & set(self._statement.rows))
        own = list(self._record_rows)[shared:]
        places = {value: self._record_rows[value].place for value in own if _used(value, lives)}
        for rows in {self._record_rows[value].rows for value in own}:
            name, targets = source.texts[rows], [source.target(value, lives) for value in places]
            chosen = f"({''.join(f'{name}[{place}], ' for place in places.values())})"
            if len(places) >= MANY:
                chosen = f"{source.constant('c', operator.itemgetter(*places.values()))}({name})"
            if places:
                source.line(depth, source.assignment(targets, f"map(listed, {chosen})"))
            source.line(depth, f"del {name}{f'[{shared}:]' if shared else ''}")

    def _write_variables(self, results: Sequence[Value], lives: Any, depth: int) -> list[str]:
        """Give the last values of the variables their names. Returns the names that are not needed any more."""
        source, texts = self._source, self._source.texts
        names = dict(zip(results, self._names, strict=True))
        texts.update(names)
        moved = [value for value in results if value in source.shared.texts and _used(value, lives)]
        shared = [source.shared.texts[value] for value in moved]
        _write_values(source, shared, moved, depth)
        texts.update(zip(moved, shared, strict=True))
        return [name for value, name in names.items() if texts[value] != name or not _used(value, lives)]


def write_skipped(source: Writer, loop: Structured, depth: int, loops: Loops) -> None:
    """Send and receive the dead values of a loop over devices on a branch that is not taken."""
    _write_dead(source, [loop], depth, loops)


def _write_dead(source: Writer, statements: Sequence[RegionStatement], depth: int, loops: Loops) -> None:
    """Send and receive dead values. All sends come first, since none of them needs a receive."""
    found: dict[str, list[tuple[Bound, int]]] = {"send": [], "recv": []}
    for transfer, inner in _transfers(statements, 0):
        found[transfer.node.definition.name].append((transfer, inner))
    for name, line in (("send", "{}({}, DEAD)"), ("recv", "await {}({})")):
        for transfer, inner in found[name]:
            zeros = ", ".join(["*ctx.iteration", *loops, *["0"] * inner])
            here = f"ctx.at(({zeros},))" if inner else source.context(loops)
            source.line(depth, line.format(source.kernel(transfer), here), transfer, loops)


def _transfers(statements: Sequence[RegionStatement], inner: int) -> Iterator[tuple[Bound, int]]:
    """The transfers of statements, each with the number of the inner loops that it is in."""
    for each in statements:
        if isinstance(each, Structured):
            for code in each.codes:
                yield from _transfers(code.statements, inner + 1)
        elif isinstance(each, Bound) and each.node.definition.name in TRANSFERS:
            yield each, inner


def _is_expression(statement: RegionStatement) -> bool:
    return isinstance(statement, Bound) and statement.expression is not None


def _used(value: Value, lives: Any) -> bool:
    return value in lives.last_use or value in lives.wanted
