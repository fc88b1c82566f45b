"""Compiles a region: nodes that never suspend become the source of one coroutine, in the order the user built them.

The source holds only generated names (`t3`, `k5`): kernels and constants are passed by position, so no text of a user,
a file or a peer is ever compiled. A value is dropped after its last use. A kernel that can write into a given buffer
gets one of its own inputs, if that has no later reader.

    async def region(ctx, a0, a1):
        t0 = k0(a0, a1)
        t1 = k1(t0, out=t0)
        del t0
        return (t1,)

Ops of NumPy scalars become operators: see `scalars`.

    async def region(ctx, a0, a1):
        a0 = a0[()]
        t0 = a0 * c0
        return (t0,)

Branches and loops become Python's own: see `control_codegen`, and `guarded_codegen` for branches over devices. Those
nested deeper than Python allows become separate coroutines, which the region awaits; so do kernels of a GPU that are
launched together, see `capture`, and heavy kernels between two transfers, see `heavy_runs`. On the loop a long region
reads the clock now and then, and suspends when the slice of time in its context is used up. On a thread it never
suspends. Before each kernel it checks whether the run has ended, which takes about 10 ns; if so, it stops.

    async def region(ctx, a0, a1):
        stop = ctx.stop
        if stop.asked: stop.check()
        t0 = k0(a0, a1)
"""

import itertools
import time
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from aioflow.kernels.control.control_flow import DEAD
from aioflow.kernels.control.transfer import put_away, taken_back
from aioflow.plan.guards import Guards
from aioflow.plan.passes.flow import Value
from aioflow.program.blocks import HeavyRun, Statement, Structured, chained
from aioflow.program.capture import LaunchGroup, RegionStatement
from aioflow.program.control_codegen import write_structured
from aioflow.program.fuse import Bound, Chain
from aioflow.program.guarded_codegen import GuardedBlock
from aioflow.program.handles import Handle
from aioflow.program.heavy_runs import HeavyWork
from aioflow.program.lifetimes import Lifetimes
from aioflow.program.loop_records import Recorded, Replayed, with_shared_rows
from aioflow.program.pieces import Member, Piece, in_pieces, is_long, seconds_within
from aioflow.program.places import Loops, Places
from aioflow.program.region import InnerRegion, Region
from aioflow.program.scalars import NAMES, ScalarValues, gives_scalar
from aioflow.program.shared_values import (
    NAME,
    SharedValues,
    assignment,
    deletions,
    is_shared,
    listed,
    unpacked,
)
from aioflow.tensors.dtypes import Array
from aioflow.tensors.tensor_list import TensorList

_CHECK_EVERY: Final = 100e-6
"""Estimated seconds between two looks at the clock."""
_DEEPEST: Final = 15
"""The most nested branches and loops in one coroutine: Python refuses more than 20 blocks."""
_serial = itertools.count()


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Suspend the region, so that its driver lets the loop turn."""
    yield


_GIVEN: Final = {
    "now": time.perf_counter,
    "pause": pause,
    **NAMES,
    "DEAD": DEAD,
    "listed": TensorList.of,
    "elements": TensorList.elements,
    "put_away": put_away,
    "taken_back": taken_back,
}
"""The functions that every region may call by name."""


def compile_region(
    statements: Sequence[RegionStatement],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    literals: dict[Value, Array],
    on_thread: bool = False,
) -> Region:
    """Compile a region.

    Args:
        statements: the region's nodes, or chains of them, sources first.
        inputs: values made outside.
        outputs: values wanted outside.
        literals: values known at compile time, like constants and handles. The region may use some of them.
        on_thread: whether it runs on a compute thread and not on the loop.
    """
    return _compiled(Source(statements, inputs, outputs, literals, on_thread))


def _compiled(source: "Source") -> Region:
    filename = f"<aioflow region {next(_serial)}>"
    namespace: dict[str, Any] = {**source.names, **_GIVEN}
    exec(compile(source.text, filename, "exec"), namespace)
    find, place = source.places.finder(filename), source.places.placer(filename)
    return Region(namespace["region"], find, place, source.handles, source.inner)


def compile_for_threads(
    statements: Sequence[Statement],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    literals: dict[Value, Array],
    blocks: bool,
) -> Region:
    """Compile a region's form for compute threads; with `blocks` its element-wise kernels are in chains."""
    return compile_region(chained(statements, outputs) if blocks else statements, inputs, outputs, literals, True)


class Source:
    """The source of one region.

    Attributes:
        on_thread: whether the region runs on a compute thread and not on the loop.
        names: the kernels and constants by their generated names.
        handles: those of the names that stand for objects of a session.
        inner: the regions that it awaits and that need objects of a session, by the names of their coroutines.
        texts: the name of each value in the source.
        scalars: the values kept as NumPy scalars.
        chosen: the names of values that are not made yet and shall have these names.
        contexts: for loops that span devices, the name of the context of an iteration.
        shared: the values that pieces of it share.
        places: which node each line computes.
    """

    def __init__(
        self,
        statements: Sequence[Member],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        literals: dict[Value, Array],
        on_thread: bool = False,
        outer: "Source | None" = None,
        dying: Sequence[Value] = (),
    ) -> None:
        """The source of these statements.

        A piece of a block in `outer` shares its values: it may drop those that are `dying`, and returns none.
        """
        self.on_thread: Final = on_thread
        self.names: dict[str, Any] = {}
        self.handles: Final[dict[str, Handle]] = {}
        self.inner: Final[dict[str, InnerRegion]] = {}
        self.scalars: Final[ScalarValues] = outer.scalars if outer else ScalarValues(statements)
        self.shared: Final[SharedValues] = outer.shared if outer else SharedValues()
        self.chosen: dict[Value, str] = {}
        self.contexts: dict[Loops, str] = {}
        self.texts: dict[Value, str] = _Texts(self._literal_text)
        self.places: Final = Places(self.texts, self.names)
        self._literals = literals
        self._serial = itertools.count()
        self.lines: list[str] = []
        if outer is None:
            self._write_region(statements, inputs, outputs)
        else:
            self._write_piece(statements, inputs, outputs, dying, outer)

    def _write_region(self, statements: Sequence[Member], inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        if is_long(statements):
            self.texts.update({value: self.shared.fresh() for value in inputs})
            self._write_head(["*given"], [f"{NAME} = dict(enumerate(given))", "del given"])
        else:
            self.texts.update({value: f"a{index}" for index, value in enumerate(inputs)})
            self._write_head([self.texts[value] for value in inputs])
        self._unpack(1, [value for value in inputs if value in self.scalars])
        self.block(statements, outputs, 1, (), inputs)
        self.line(1, f"return ({''.join(f'{item}, ' for item in self.listed(outputs))})")

    def _write_piece(
        self, statements: Sequence[Member], inputs: Sequence[Value], outputs: Sequence[Value],
        dying: Sequence[Value], outer: "Source",
    ) -> None:  # fmt: skip
        given = [value for value in inputs if not is_shared(outer.texts[value])]
        self.texts.update({value: outer.texts[value] for value in inputs})
        self.texts.update({value: f"a{index}" for index, value in enumerate(given)})
        self._write_head([NAME, *[self.texts[value] for value in given]])
        self.block(statements, outputs, 1, (), [*given, *dying])

    def _write_head(self, arguments: Sequence[str], begin: Sequence[str] = ()) -> None:
        self.line(0, f"async def region({', '.join(['ctx', *arguments])}):")
        for text in [*begin, "stop = ctx.stop"] if self.on_thread else begin:
            self.line(1, text)

    def _literal_text(self, value: Value) -> str:
        literal = self._literals[value]
        name = self.constant("c", literal[()] if value in self.scalars else literal)
        if isinstance(literal, Handle):
            self.handles[name] = literal
        return name

    @property
    def length(self) -> int:
        """The number of lines."""
        return len(self.lines)

    @property
    def text(self) -> str:
        """The source."""
        return "\n".join(self.lines)

    def line(self, depth: int, text: str, blamed: Member | None = None, loops: Loops = ()) -> None:
        """Write a line. An exception of it belongs to the statement `blamed`, in an iteration of these loops."""
        self.lines.append("    " * depth + text)
        if blamed is not None:
            self.places.blamed[len(self.lines)] = blamed, loops

    def counter(self, loop: str) -> str:
        """A name for the number of the iteration of that loop."""
        name = self.fresh("i")
        self.places.loop_names[name] = loop
        return name

    def fresh(self, kind: str) -> str:
        """A name that is not used yet."""
        return f"{kind}{next(self._serial)}"

    def constant(self, kind: str, value: Any) -> str:
        """The name of a constant."""
        name = f"{kind}{len(self.names)}"
        self.names[name] = value
        return name

    def block(
        self,
        statements: Sequence[Member],
        outputs: Sequence[Value],
        depth: int,
        loops: Loops,
        inputs: Sequence[Value] = (),
        owned: Sequence[Value] = (),
    ) -> None:
        """Write statements.

        Args:
            statements: sources first.
            outputs: the values needed after them.
            depth: their indentation.
            loops: the names of the counters of the surrounding loops.
            inputs: the values that the block may drop.
            owned: those that it may drop, and overwrite from the second iteration of the innermost loop on, since
                nothing else refers to them then.
        """
        whole = [each for each in statements if not isinstance(each, (Piece, Recorded, Replayed))]
        guards = Guards([statement.node for statement in whole])
        if guards:
            lives = Lifetimes(whole, outputs, inputs, owned)
            GuardedBlock(self, guards, lives, depth, loops).write(whole, outputs)
            return
        ordered = with_shared_rows(statements, outputs)
        pieces, shared = in_pieces(ordered, outputs, owned)
        if shared:
            self.shared.add(shared, Lifetimes(ordered, outputs, inputs, owned).reusable)
        lives = Lifetimes(pieces, outputs, inputs, owned, self.shared.reusable)
        unseen = 0.0
        for position, statement in enumerate(pieces):
            dying = lives.dying(position, statement)
            if isinstance(statement, Piece):
                self._await_piece(statement, dying, depth, loops)
            else:
                self.statement(position, statement, lives, depth, loops)
                self.drop(depth, dying)
            unseen += seconds_within(statement)
            if unseen > _CHECK_EVERY and position + 1 < len(pieces) and not self.on_thread:
                self.line(depth, "if now() > ctx.due: await pause()", statement, loops)
                unseen = 0.0

    def statement(
        self,
        position: int,
        statement: Statement | LaunchGroup | Recorded | Replayed,
        lives: Lifetimes,
        depth: int,
        loops: Loops,
    ) -> None:
        """Write one statement."""
        if isinstance(statement, HeavyRun):
            self._await_heavy(statement, lives, depth, loops)
        elif isinstance(statement, LaunchGroup) or (isinstance(statement, Structured) and depth > _DEEPEST):
            self._await(statement, lives, depth, loops)
        elif isinstance(statement, Structured):
            write_structured(self, statement, lives, depth, loops)
        elif isinstance(statement, Recorded):
            self._record(statement, depth, loops)
        elif isinstance(statement, Replayed):
            self._replay(statement, lives, depth, loops)
        else:
            self._call(position, statement, lives, depth, loops)

    def _record(self, statement: Recorded, depth: int, loops: Loops) -> None:
        text = self.texts[statement.value]
        kept = f"put_away(ctx.device, {text})" if statement.swaps else text
        self.line(depth, f"{self.texts[statement.row.rows]}[{statement.row.place}].append({kept})", statement, loops)

    def _replay(self, statement: Replayed, lives: Lifetimes, depth: int, loops: Loops) -> None:
        popped = f"{self.texts[statement.row.rows]}[{statement.row.place}].pop()"
        for value in statement.results:
            unpacked = value in self.scalars and not self.scalars.are_popped(statement.elements)
            popped = f"{self.target(value, lives)} = {popped}{'[()]' if unpacked else ''}"
        self.line(depth, popped, statement, loops)

    def _await(self, statement: Structured | LaunchGroup, lives: Lifetimes, depth: int, loops: Loops) -> None:
        """Write a branch, a loop, or kernels that are launched together as a separate coroutine."""
        inputs = list(dict.fromkeys(statement.inputs))
        together = statement if isinstance(statement, LaunchGroup) else None
        inside = [statement] if together is None else together.members
        inner = compile_region(inside, inputs, statement.results, self._literals, self.on_thread)
        begin = inner.begin if together is None else together.begin_with(inner.begin, inner.find)
        targets = [self.target(value, lives) for value in statement.results]
        name = self._begin(statement, begin, inner, self.listed(inputs), targets, depth, loops)
        if together is None:  # others need no object of a session
            self.inner[name] = inner

    def _await_piece(self, piece: Piece, dying: Sequence[Value], depth: int, loops: Loops) -> None:
        """Write a piece of a long block as a separate coroutine, which drops the values that die in it."""
        inputs = [value for value in piece.inputs if value not in self._literals]
        inner = _compiled(Source(piece.members, inputs, piece.results, self._literals, self.on_thread, self, dying))
        self.texts.update({value: self.shared.texts[value] for value in piece.results})
        given = [text for text in map(self.texts.__getitem__, inputs) if not is_shared(text)]
        name = self._begin(piece, inner.begin, inner, [NAME, *given], [], depth, loops, piece.needs_iteration)
        self.inner[name] = inner

    def _await_heavy(self, run: HeavyRun, lives: Lifetimes, depth: int, loops: Loops) -> None:
        """Write kernels of a region that sends and receives, which may run on a compute thread."""
        inputs = [value for value in run.inputs if value not in self._literals]
        parts = run.members, inputs, run.results, self._literals
        inner = HeavyWork(run, inputs, compile_region(*parts), lambda: compile_for_threads(*parts, run.blocks))
        targets = [self.target(value, lives) for value in run.results]
        self.inner[self._begin(run, inner.begin, inner, self.listed(inputs), targets, depth, loops)] = inner
        self._unpack(depth, [value for value in run.results if value in self.scalars])

    def _begin(
        self,
        statement: Member,
        begin: Callable[..., Any],
        inner: InnerRegion,
        given: Sequence[str],
        targets: Sequence[str],
        depth: int,
        loops: Loops,
        needs_iteration: bool = True,
    ) -> str:
        """Write the await of a separate coroutine, and return its name."""
        arguments = ", ".join([self.context(loops, needs_iteration), *given])
        name = self.constant("k", begin)
        self.line(depth, self.assignment(targets, f"await {name}({arguments})"), statement, loops)
        self.places.awaited[len(self.lines)] = inner
        return name

    def _call(self, position: int, b: Bound | Chain, lives: Lifetimes, depth: int, loops: Loops) -> None:
        if isinstance(b, Bound) and b.expression is not None:
            target = self.target(b.results[0], lives)
            if target != "_":
                self.line(depth, f"{target} = {self.expression(b)}", b, loops)
            return
        arguments = self.listed(b.inputs)
        if b.takes_context:
            definition = b.node.definition
            arguments.insert(0, self.context(loops, counted=definition.counted or definition.waits))
        buffer = lives.buffer(position, b)
        if buffer is not None:
            later = f" if {loops[-1]} else None" if buffer in lives.owned else ""
            arguments.append(f"out={self._room(buffer, b)}{later}")
        targets = [self.target(value, lives) for value in b.results]
        call = f"{self.kernel(b)}({', '.join(arguments)})"
        if isinstance(b, Bound) and b.kernel.asynchronous:
            call = f"(await {call})"
        unpacked = [value for value in b.results if value in self.scalars and not gives_scalar(b.call)]
        if unpacked and len(targets) == 1:
            call += "[()]"
        if self.on_thread:
            self.line(depth, "if stop.asked: stop.check()", b, loops)
        self._write_call(call, targets, b, depth, loops)
        if len(targets) > 1:
            self._unpack(depth, unpacked)

    def _write_call(self, call: str, targets: Sequence[str], b: Bound | Chain, depth: int, loops: Loops) -> None:
        """Write a call, and drop those of its results that nothing reads."""
        if set(targets) <= {"_"}:
            self.line(depth, call, b, loops)
        elif len(targets) == 1:
            self.line(depth, f"{targets[0]} = {call}", b, loops)
        else:
            unread = self.shared.fresh() if any(map(is_shared, targets)) else "_"
            self.line(depth, self.assignment([unread if text == "_" else text for text in targets], call), b, loops)
            if "_" in targets:
                self.line(depth, f"del {unread}")

    def _room(self, buffer: Value, b: Bound | Chain) -> str:
        """The array in `buffer` for a result.

        Where operands differ by their order in memory, the result in that array could have another order than NumPy
        chooses, and with it other sums of it.
        """
        arrays = [value for value in b.inputs if value.spec.rank is None or value.spec.rank > 1]
        text = self.texts[buffer]
        if isinstance(b, Chain) or b.node.definition.updates or not set(arrays) - {buffer}:  # a chain looks for itself
            return text
        ordered = [f"{self.texts[value]}.flags.c_contiguous" for value in dict.fromkeys(arrays)]
        return f"{text} if {' and '.join(ordered)} else None"

    def context(self, loops: Loops, counted: bool = False) -> str:
        """The context of a kernel in an iteration of these loops, whose numbers it needs if its runs are counted."""
        inside = f"ctx.at((*ctx.iteration, {', '.join(loops)}))" if loops and counted else "ctx"
        return self.contexts.get(loops, inside)

    def kernel(self, b: Bound | Chain) -> str:
        """The name of its kernel."""
        name = self.constant("k", b.call)
        if isinstance(b.call, Handle):
            self.handles[name] = b.call
        return name

    def expression(self, b: Bound) -> str:
        """The expression of a node of scalar code."""
        assert b.expression is not None
        return b.expression.format(*[self.texts[value] for value in b.inputs])

    def target(self, value: Value, lives: Lifetimes) -> str:
        """Return a name for a new value; `_` if it has no reader."""
        if value not in lives.last_use and value not in lives.wanted:
            return "_"
        name = self.texts[value] = self.chosen.pop(value, "") or self.shared.texts.get(value) or self.fresh("t")
        return name

    def drop(self, depth: int, values: Sequence[Value]) -> None:
        """Drop values, except constants, NumPy scalars and values of a surrounding block."""
        self.delete(depth, self.droppable(values))

    def delete(self, depth: int, texts: Iterable[str]) -> None:
        """Delete names."""
        for text in deletions(texts, self.constant):
            self.line(depth, text)

    def listed(self, values: Iterable[Value]) -> list[str]:
        """The values as items of a list."""
        return listed([self.texts[value] for value in values], self.constant)

    def assignment(self, targets: Sequence[str], items: str) -> str:
        """The statement that gives these names the items of a value."""
        return assignment(targets, items, self.constant)

    def _unpack(self, depth: int, values: Iterable[Value]) -> None:
        """Take NumPy scalars out of arrays of rank 0."""
        for text in unpacked([self.texts[value] for value in values], self.constant):
            self.line(depth, text)

    def droppable(self, values: Sequence[Value]) -> list[str]:
        """The names of those values that are neither constants nor NumPy scalars."""
        large = [self.texts[value] for value in values if value not in self.scalars]
        return [text for text in dict.fromkeys(large) if not text.startswith("c")]


class _Texts(dict[Value, str]):
    """The names of values; a literal gets its name at its first use."""

    def __init__(self, name: Callable[[Value], str]) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, value: Value) -> str:
        text = self[value] = self._name(value)
        return text
