"""The source of the primitives of branches in a region that sends and receives: values may be dead there.

Nodes with one guard after the other are in one `if`. A value that is always sent, or merged, is read under its own
guard. The names of guarded values are unbound where the values are dead, so nothing else reads them.

    t1 = await k0(ctx)                           a value of another device, which may be dead
    g1 = t1 is not DEAD
    if g1:
        t2 = k1(t1)
    k2(ctx, t2 if g1 else DEAD)                  sent, dead or alive
    if t0:                                       the side of a switch
        t3 = k3(a0)
    if not t0:
        t4 = k4(a0)
    t5 = t3 if t0 else t4                        a merge
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioflow.plan.frame_levels import role_of
from aioflow.plan.guards import ALWAYS, Condition, Guard, Guards, is_guarded
from aioflow.plan.passes.flow import Node, Value
from aioflow.plan.passes.recover_loops import spans_devices
from aioflow.program.blocks import Structured
from aioflow.program.capture import RegionStatement
from aioflow.program.control_codegen import Loops, Writer, write_skipped
from aioflow.program.fuse import Bound


class GuardedBlock:
    """The writing of one block in which values may be dead."""

    def __init__(self, source: Writer, guards: Guards, lives: Any, depth: int, loops: Loops) -> None:
        self._source: Final = source
        self._guards: Final = guards
        self._lives: Final = lives
        self._depth: Final = depth
        self._loops: Final = loops
        self._open: Guard = ALWAYS
        self._length = 0
        """The number of lines when the open `if` was written."""
        self._left: list[Value] = []
        """The values to drop after the open `if`."""
        self._places: dict[Node, int] = {}
        self._alive: dict[Value, str] = {}
        """The names of the truths that values are alive."""

    def write(self, statements: Sequence[RegionStatement], outputs: Iterable[Value]) -> None:
        """Write the statements. Outputs without a value are dead."""
        self._places = {statement.node: place for place, statement in enumerate(statements)}
        for condition in self._conditions(statements, outputs):
            if condition.holds is not None:
                self._lives.keep(condition.value)
        for place, statement in enumerate(statements):
            self._enter(self._guards.running.get(statement.node, ALWAYS))
            self._write(place, statement)
            self._drop(place, statement)
        self._enter(ALWAYS)
        for value in dict.fromkeys(outputs):
            if self._guards.of(value):
                self._source.line(self._depth, f"{self._source.texts[value]} = {self._read(value)}")

    def _conditions(self, statements: Sequence[RegionStatement], outputs: Iterable[Value]) -> set[Condition]:
        read = [*[value for statement in statements for value in statement.inputs], *outputs]
        return set(ALWAYS.union(*map(self._guards.of, read), *self._guards.running.values()))

    # Lines

    @property
    def _inside(self) -> int:
        return self._depth + bool(self._open)

    def _enter(self, guard: Guard) -> None:
        """Close the open `if`, and open that of a guard."""
        source = self._source
        if guard == self._open:
            return
        if self._open and source.length == self._length:
            source.line(self._inside, "pass")
        self._open = ALWAYS
        self._release(self._left)
        self._left = []
        if guard:
            source.line(self._depth, f"if {self._text(guard)}:")
            self._open, self._length = guard, source.length

    def _text(self, guard: Guard) -> str:
        """The truth of a guard; what a condition needs is before it."""
        ordered = sorted(guard, key=lambda each: (self._places.get(each.value.node, -1), each.value.index))
        return " and ".join(map(self._condition, ordered))

    def _condition(self, condition: Condition) -> str:
        if condition.holds is None:
            return self._alive[condition.value]
        text = self._source.texts[condition.value]
        return text if condition.holds else f"not {text}"

    def _read(self, value: Value) -> str:
        """A value of any guard, read here."""
        guard, text = self._guards.of(value) - self._open, self._source.texts[value]
        return f"{text} if {self._text(guard)} else DEAD" if guard else text

    # Statements

    def _write(self, place: int, statement: RegionStatement) -> None:
        source, node = self._source, statement.node
        if isinstance(statement, Structured):
            source.statement(place, statement, self._lives, self._inside, self._loops)
            if self._open and spans_devices(node):
                guard = self._open
                self._enter(ALWAYS)
                source.line(self._depth, f"if not ({self._text(guard)}):")
                write_skipped(source, statement, self._depth + 1, self._loops)
            return
        role = role_of(node)
        if role == "switch":
            self._write_switch(statement)
        elif role == "merge":
            self._write_merge(statement)
        elif is_guarded(node) and isinstance(statement, Bound):
            self._write_receive(statement)
        elif node.definition.name == "send" and isinstance(statement, Bound):
            call = f"{source.kernel(statement)}({source.context(self._loops)}, {self._read(node.inputs[0])})"
            source.line(self._depth, call, statement, self._loops)
        else:
            source.statement(place, statement, self._lives, self._inside, self._loops)

    def _write_switch(self, statement: RegionStatement) -> None:
        data = self._source.texts[statement.inputs[0]]
        names = [self._source.target(value, self._lives) for value in statement.results]
        for name in names:
            if name != "_":
                self._source.line(self._inside, f"{name} = {data}")

    def _write_merge(self, statement: RegionStatement) -> None:
        *inputs, last = statement.inputs
        text = self._source.texts[last]
        if self._guards.is_open(statement.node):
            text = self._read(last)
        for value in reversed(inputs):
            text = f"{self._source.texts[value]} if {self._text(self._guards.of(value) - self._open)} else {text}"
        self._write_value(statement, text)

    def _write_receive(self, statement: Bound) -> None:
        self._write_value(statement, f"await {self._source.kernel(statement)}({self._source.context(self._loops)})")
        value = statement.results[0]
        if value in self._source.scalars:
            name = self._source.texts[value]
            self._source.line(self._depth, f"if {self._alive[value]}: {name} = {name}[()]", statement, self._loops)

    def _write_value(self, statement: RegionStatement, text: str) -> None:
        """Write a value, and whether it is alive if that is a condition."""
        value, source = statement.results[0], self._source
        name = source.target(value, self._lives)
        is_condition = Condition(value) in self._guards.of(value)
        if name == "_" and is_condition:
            name = source.texts[value] = source.fresh("t")
        source.line(self._inside, text if name == "_" else f"{name} = {text}", statement, self._loops)
        if is_condition:
            alive = self._alive[value] = source.fresh("g")
            source.line(self._inside, f"{alive} = {name} is not DEAD")

    # The ends of values

    def _drop(self, place: int, statement: RegionStatement) -> None:
        """Drop values after their last readers: where they are bound, or after the open `if`."""
        dead = [v for v in dict.fromkeys(statement.inputs) if self._lives.last_use.get(v) == place]
        here = [value for value in dead if self._guards.of(value) == self._open]
        self._source.drop(self._inside, here)
        others = [value for value in dead if value not in here]
        if self._open:
            self._left += others
        else:
            self._release(others)

    def _release(self, values: Sequence[Value]) -> None:
        """Drop values that may be unbound."""
        for name in self._source.droppable(values):
            self._source.line(self._depth, f"{name} = None")
