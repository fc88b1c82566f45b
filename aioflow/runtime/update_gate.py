"""Waits for a moment between the steps of a session in which no run changes certain variables."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from aioflow.graph.effects import STATES, changes_variables, has_lasting_effect, takes_or_puts
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import bodies_of
from aioflow.plan.pipeline import Signature
from aioflow.tensors.dtypes import ResourceSpec

R = TypeVar("R")
Handles = frozenset[Operation]
"""The handles of variables and tables."""
NONE: Final[Handles] = frozenset()
_HELD: Final = 1.0
"""The most seconds for which new runs are held back at a time: a running one may wait for their effects."""


def changed_by(targets: Iterable[Operation], feeds: Sequence[Tensor]) -> Handles:
    """The variables and tables that a run of these operations changes, if those tensors are fed."""
    fed, seen, waiting, found = set(feeds), set[Operation](), list(targets), set[Operation]()
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [tensor.op for tensor in operation.inputs if tensor not in fed]
            waiting += operation.control_inputs
            if _changes(operation):
                found.update(tensor.op for tensor in operation.inputs if tensor.op.type in STATES)
    return frozenset(found)


def effects_of(signature: Signature) -> set[str]:
    """The names of variables and tables that such a run changes, and of its operations with other lasting effects."""
    fed, seen = set(signature.feeds), set[Operation]()
    waiting = [*signature.targets, *[tensor.op for tensor in signature.fetches]]
    while waiting:
        operation = waiting.pop()
        if operation not in seen:
            seen.add(operation)
            waiting += [tensor.op for tensor in operation.inputs if tensor not in fed]
            waiting += [*operation.control_inputs, *_inside(operation)]
    lasting = {each.name for each in seen if takes_or_puts(each.definition)}
    lasting |= {
        each.name for each in seen if has_lasting_effect(each.definition, [tensor.spec for tensor in each.inputs])
    }
    targets = [*signature.targets, *[tensor.op for tensor in signature.fetches]]
    return lasting | {handle.name for handle in changed_by(targets, signature.feeds)}


def _inside(operation: Operation) -> list[Operation]:
    """The operations in its bodies."""
    return [inner for body in bodies_of(operation) for inner in body.graph.get_operations()]


def _changes(operation: Operation) -> bool:
    """Whether it changes one of its variables: in its bodies, if it has any."""
    bodies = _inside(operation)
    if bodies:
        return any(_changes(inner) for inner in bodies)
    takes_handle = any(isinstance(tensor.spec, ResourceSpec) for tensor in operation.inputs)
    return takes_handle and changes_variables(operation.definition)


class Boundary:
    """The runs of a session that change variables, on one event loop."""

    def __init__(self) -> None:
        self._under_way: Final[dict[object, Handles]] = {}
        self._ended = asyncio.Event()
        self._kept: Handles = NONE
        self._open = asyncio.Event()
        self._keeping = asyncio.Lock()

    async def run(self, changed: Handles, work: Callable[[], Awaitable[R]]) -> R:
        """Run `work`, which changes these variables, and return its result. Waits while they must not change."""
        while self._kept & changed:
            await self._open.wait()
        token = object()
        self._under_way[token] = changed
        try:
            return await work()
        finally:
            del self._under_way[token]
            self._ended.set()

    @contextlib.asynccontextmanager
    async def between(self, variables: Handles, patience: float) -> AsyncIterator[bool]:
        """Inside the block no run changes these variables: True. False if no such moment came in `patience` seconds.

        New runs that change them wait, first for the running ones, then for the block. After one second of holding
        them back they go on, and the gate tries again, since running ones may need them. Blocks run one at a time.
        """
        async with self._keeping:
            reached = await self._reached(variables, patience)
            self._kept = variables if reached else NONE
            self._open.clear()
            try:
                yield reached
            finally:
                self._let_go()

    async def _reached(self, variables: Handles, patience: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while self._busy(variables) and loop.time() < end:
            if not await self._alone(variables, min(loop.time() + _HELD, end)):
                self._let_go()
                await self._one_ends(min(loop.time() + _HELD, end))
        return not self._busy(variables)

    def _busy(self, variables: Handles) -> bool:
        return any(changed & variables for changed in self._under_way.values())

    async def _alone(self, variables: Handles, until: float) -> bool:
        """Wait until no run that changes these variables is running. Returns whether that happened in time."""
        self._kept = variables
        self._open.clear()
        try:
            while self._busy(variables) and asyncio.get_running_loop().time() < until:
                await self._one_ends(until)
        except BaseException:
            self._let_go()
            raise
        return not self._busy(variables)

    async def _one_ends(self, until: float) -> None:
        """A run has ended, or it is that late."""
        self._ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._ended.wait()

    def _let_go(self) -> None:
        self._kept = NONE
        self._open.set()
