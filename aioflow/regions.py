"""What never waits, compiled: a run of nodes becomes the source of one coroutine, in the order the user built them.

The source holds generated names only (`t3`, `k5`): kernels and constants are handed in by position, so nothing a user,
a file or a peer named or wrote is ever compiled. A value is dropped after its last use, and a kernel that can write
into a given buffer is given one of its own inputs if nobody else will look at it again.

    async def region(ctx, a0, a1):
        t0 = k0(a0, a1)
        t1 = k1(t0, out=t0)
        del t0
        return (t1,)

A long region looks at the clock now and then, and suspends when the slice of time in its context is used up.
"""

import itertools
import time
import types
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple

from aioflow import costs
from aioflow.blame import Finder
from aioflow.dtypes import Array
from aioflow.fusion import Statement
from aioflow.passes.flow import Node, Value

_CHECK_EVERY: Final = 100e-6
"""Estimated seconds between two looks at the clock."""
_serial = itertools.count()


class Region(NamedTuple):
    """Compiled nodes.

    Attributes:
        begin: (context, *inputs) -> a coroutine of the outputs.
        find: which node an error came from.
    """

    begin: Callable[..., Any]
    find: Finder


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Hand back to whoever drives the region: on the loop it lets the loop turn, on a thread it looks for the end."""
    yield


def compile_region(
    statements: Sequence[Statement], inputs: Sequence[Value], outputs: Sequence[Value], literals: dict[Value, Array]
) -> Region:
    """Compile a region.

    Args:
        statements: the region's nodes, or chains of them, sources first.
        inputs: values made outside.
        outputs: values wanted outside.
        literals: values known now: constants, handles.
    """
    source = Source(statements, inputs, outputs, literals)
    filename = f"<aioflow region {next(_serial)}>"
    namespace: dict[str, Any] = {**source.names, "now": time.perf_counter, "pause": pause}
    exec(compile(source.text, filename, "exec"), namespace)
    return Region(namespace["region"], source.finder(filename))


class Source:
    """The source of one region.

    Attributes:
        names: what the generated names of kernels and constants stand for.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        literals: dict[Value, Array],
    ) -> None:
        self._statements = statements
        self._outputs = outputs
        self._wanted = set(outputs)
        self.names: dict[str, Any] = {}
        self._text: dict[Value, str] = {value: f"a{index}" for index, value in enumerate(inputs)}
        self._last_use = self._last_uses()
        self._reusable = self._find_reusable()
        self._nodes: dict[int, Statement] = {}
        arguments = "".join(f", {self._text[value]}" for value in inputs)
        self.lines = [f"async def region(ctx{arguments}):"]
        for value, literal in literals.items():
            self._text[value] = self._name("c", literal)
        self._write()

    @property
    def text(self) -> str:
        """The source."""
        return "\n".join(self.lines)

    def _name(self, kind: str, value: Any) -> str:
        name = f"{kind}{len(self.names)}"
        self.names[name] = value
        return name

    def _last_uses(self) -> dict[Value, int]:
        """For each value that is not wanted outside, the position of the last node that reads it."""
        last = {value: position for position, b in enumerate(self._statements) for value in b.inputs}
        for value in self._outputs:
            last.pop(value, None)
        return last

    def _find_reusable(self) -> set[Value]:
        """Values in memory that this region made and that nothing else refers to, now or later."""
        made = {value for b in self._statements if b.fresh and len(b.results) == 1 for value in b.results}
        shared = {value for b in self._statements if not b.fresh for value in b.inputs}
        return made - shared - self._wanted

    def _write(self) -> None:
        unseen = 0.0
        for position, b in enumerate(self._statements):
            self._nodes[len(self.lines) + 1] = b
            self._write_call(position, b)
            self._write_drops(position, b)
            unseen += sum(costs.seconds(node, node.input_specs) for node in b.nodes)
            if unseen > _CHECK_EVERY and position + 1 < len(self._statements):
                self.lines.append("    if now() > ctx.due: await pause()")
                unseen = 0.0
        results = "".join(f"{self._text[value]}, " for value in self._outputs)
        self.lines.append(f"    return ({results})")

    def _write_call(self, position: int, b: Statement) -> None:
        arguments = [self._text[value] for value in b.inputs]
        if b.takes_context:
            arguments.insert(0, "ctx")
        buffer = self._buffer(position, b)
        if buffer is not None:
            arguments.append(f"out={buffer}")
        targets = [self._target(value) for value in b.results]
        call = f"{self._name('k', b.call)}({', '.join(arguments)})"
        used = any(target != "_" for target in targets)
        self.lines.append(f"    {', '.join(targets)} = {call}" if used else f"    {call}")

    def _target(self, value: Value) -> str:
        if value not in self._last_use and value not in self._wanted:
            return "_"
        name = f"t{len(self._text)}"
        self._text[value] = name
        return name

    def _buffer(self, position: int, b: Statement) -> str | None:
        """An input that dies here and has surely the shape and dtype of the result."""
        if not b.out:
            return None
        wanted = b.node.output_specs[0]
        for value in b.inputs:
            mine = value.spec
            if (
                value in self._reusable
                and self._last_use.get(value) == position
                and mine.dtype is wanted.dtype
                and wanted.rank
                and (mine.shape is wanted.shape or (mine.shape.is_fully_defined() and mine.shape == wanted.shape))
            ):
                return self._text[value]
        return None

    def _write_drops(self, position: int, b: Statement) -> None:
        dead = [
            self._text[value] for value in dict.fromkeys(b.inputs)
            if self._last_use.get(value) == position and not self._text[value].startswith("c")
        ]  # fmt: skip
        if dead:
            self.lines.append(f"    del {', '.join(dead)}")

    def finder(self, filename: str) -> Finder:
        """From an exception to the node whose statement raised it."""
        nodes, text = self._nodes, self._text
        names = self.names

        def find(error: BaseException) -> tuple[Node, Sequence[Array]] | None:
            entry = error.__traceback__
            while entry is not None and entry.tb_frame.f_code.co_filename != filename:
                entry = entry.tb_next
            if entry is None:
                return None
            b, scope = nodes[entry.tb_lineno], {**names, **entry.tb_frame.f_locals}
            return b.node, [scope.get(text[value]) for value in b.inputs]

        return find


__all__ = ["Region", "Source", "compile_region", "pause"]
