"""Which node each line of a region's source computes: for errors, and for looks at a coroutine from outside."""

import bisect
import inspect
from collections.abc import Mapping
from typing import Any, Final

from aioflow.plan.passes.flow import Value
from aioflow.program.error_location import Finder, Found, Place, Placer, locals_of
from aioflow.program.fuse import Chain
from aioflow.program.pieces import Member
from aioflow.program.region import InnerRegion
from aioflow.program.shared_values import value_of

Loops = tuple[str, ...]
"""The names of the counters of the loops around, outermost first."""


class Places:
    """What the lines of one region compute.

    Attributes:
        blamed: for the number of a line, the statement that it belongs to, and the loops around.
        loop_names: the loops by the names of their counters.
        awaited: the inner regions by the lines that await them.
    """

    def __init__(self, texts: Mapping[Value, str], names: Mapping[str, Any]) -> None:
        """`texts` are the names of values in the source, `names` its kernels and constants."""
        self.blamed: Final[dict[int, tuple[Member, Loops]]] = {}
        self.loop_names: Final[dict[str, str]] = {}
        self.awaited: Final[dict[int, InnerRegion]] = {}
        self._texts: Final = texts
        self._names: Final = names

    def finder(self, filename: str) -> Finder:
        """From an exception to the node whose statement raised it."""
        blamed, texts, names, loop_names = self.blamed, self._texts, self._names, self.loop_names
        regions = self.awaited

        def find(error: BaseException) -> Found | None:
            entry = error.__traceback__
            while entry is not None and entry.tb_frame.f_code.co_filename != filename:
                entry = entry.tb_next
            if entry is None:
                return None
            (b, loops), scope = blamed[entry.tb_lineno], {**names, **locals_of(entry.tb_frame)}
            where = _iterations(loops, loop_names, scope)
            inner = regions[entry.tb_lineno].find(error) if entry.tb_lineno in regions else None
            if inner is None:
                given = [value_of(texts[value], scope) for value in b.inputs]
                return (*(b.failed(error, given) if isinstance(b, Chain) else (b.node, given)), where)
            node, values, inside = inner
            return node, values, ", ".join(filter(None, (inside, where)))

        return find

    def placer(self, filename: str) -> Placer:
        """A function from a coroutine of the region to the node that it computes."""
        blamed, loop_names, lines = self.blamed, self.loop_names, sorted(self.blamed)
        regions = self.awaited

        def place(coroutine: Any) -> Place | None:
            frame = coroutine.cr_frame
            if frame is None or frame.f_code.co_filename != filename:
                return None
            before = bisect.bisect(lines, frame.f_lineno)
            if not before:
                return None
            line = lines[before - 1]
            b, loops = blamed[line]
            where = _iterations(loops, loop_names, locals_of(frame)) if loops else ""
            awaited = coroutine.cr_await
            inner = regions[line].computes(awaited) if line in regions and inspect.iscoroutine(awaited) else None
            if inner is None:
                return b.node, where
            node, inside = inner
            return node, ", ".join(filter(None, (inside, where)))

        return place


def _iterations(loops: Loops, loop_names: Mapping[str, str], scope: Mapping[str, Any]) -> str:
    """A text with the iterations of the loops, the innermost first."""
    found = [f"in iteration {scope[loop]} of {loop_names[loop]!r}" for loop in reversed(loops) if loop in scope]
    return ", ".join(found)
