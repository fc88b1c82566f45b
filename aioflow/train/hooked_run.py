"""Merges a run with the additions of hooks: fetches, feeds and options in one, and the values separated again."""

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

from aioflow.config import RunOptions
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.runtime.feeds import parse_feeds
from aioflow.runtime.fetches import Fetches, parse_fetches
from aioflow.train.session_run_hook import SessionRunArgs

T = TypeVar("T")


class MergedRun:
    """The fetches, feeds and options of one run, merged from its caller and all hooks.

    Attributes:
        elements: all fetches, for `Session.run`.
        feeds: all feeds.
        options: the options of the run; None if neither the caller nor a hook gave any.

    Raises:
        TypeError, ValueError: a fetch or feed does not fit the graph, or two of them feed the same tensor.
    """

    def __init__(self, graph: Graph, own: SessionRunArgs, hooks: Sequence[SessionRunArgs | None]) -> None:
        wanted = [own, *[args or SessionRunArgs() for args in hooks]]
        self._parsed: Final = [None if args.fetches is None else parse_fetches(graph, args.fetches) for args in wanted]
        if own.fetches is None:
            parse_fetches(graph, None)  # which raises
        self.elements: Final = list(dict.fromkeys(e for parsed in self._parsed if parsed for e in _elements(parsed)))
        self.feeds: Final = _merge_feeds(graph, [args.feeds for args in wanted if args.feeds])
        self.options: Final = merged_options([args.options for args in wanted if args.options is not None])

    def split(self, values: Sequence[Any]) -> list[Any]:
        """Return the values in the structures of the caller and of each hook; None for an empty structure."""
        found = dict(zip(self.elements, values, strict=True))
        return [None if p is None else p.build([found[tensor] for tensor in p.tensors]) for p in self._parsed]


def _elements(parsed: Fetches) -> list[Tensor | Operation]:
    return [*parsed.tensors, *parsed.operations]


def _merge_feeds(graph: Graph, several: Sequence[Mapping[Any, Any]]) -> dict[Any, Any] | None:
    together: dict[Any, Any] = {}
    for feeds in several:
        given = parse_feeds(graph, feeds)
        twice = [tensor.name for tensor in given if tensor in together]
        if twice:
            raise ValueError(
                f"{', '.join(twice)}: fed by the run and by a hook, or by two hooks; one of them has to do"
            )
        together |= given
    return together or None


def merged_options(several: Sequence[RunOptions]) -> RunOptions | None:
    """Return the shortest time limit, and every check and trace that any of the options requests."""
    if len(several) < 2:
        return several[0] if several else None
    limits = [options.timeout for options in several if options.timeout is not None]
    return RunOptions(
        timeout=min(limits, default=None),
        trace=any(options.trace for options in several),
        check_numerics=any(options.check_numerics for options in several),
    )


async def finished(value: Awaitable[T] | T) -> T:
    """Return the result of a hook's method; await it if possible."""
    return await value if inspect.isawaitable(value) else value
