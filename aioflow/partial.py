"""A partial run: one step whose feeds arrive, and whose fetches are asked for, in several calls [P15 section 4.2]."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.dtypes import Array
from aioflow.executor import Outputs, Program, Unit
from aioflow.node import Operation, Tensor
from aioflow.plan import Plan
from aioflow.step import Local, Step


class PartialRun(Step):
    """A step that runs in a task of the session's while the caller feeds it and fetches from it.

    Every feed and every fetch is used once. It ends when all are, when a call of it is cancelled, or on an error, which
    every later call raises.
    """

    __slots__ = ("_fed", "_fetched", "_places", "_program", "_runner", "_signature", "_values")

    def __init__(self, local: Local, plan: Plan, program: Program) -> None:
        super().__init__(local, plan)
        loop = asyncio.get_running_loop()
        self._program: Final = program
        self._signature: Final = plan.signature
        self._fed = {tensor: loop.create_future() for tensor in plan.signature.feeds}
        self._values: dict[Tensor, asyncio.Future[Array]] = {}
        self._fetched: set[Tensor | Operation] = set()
        self._places: dict[int, list[Tensor]] = {}
        for tensor, slot in zip(plan.signature.fetches, program.fetches, strict=True):
            self._values[tensor] = loop.create_future()
            self._places.setdefault(slot, []).append(tensor)
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to execute, in a task that `stop` or the end of the run awaits."""
        self._runner = asyncio.get_running_loop().create_task(self._execute())

    async def _execute(self) -> None:
        try:
            await self.run(self._program, (), None)
        except BaseException as error:
            failure = errors.CancelledError("the partial run was cancelled") if _cancelled(error) else error
            for future in self._values.values():
                if not future.done():
                    future.set_exception(failure)
                    future.exception()  # asked for or not, it counts as seen
            if not isinstance(error, errors.OpError | asyncio.CancelledError):
                raise

    async def fed(self, index: int) -> Array:
        """The value of a feed, once a call has given it."""
        return await self._fed[self._signature.feeds[index]]

    def finished(self, unit: Unit, inputs: Outputs, outputs: Outputs, start: float) -> None:
        """Hand out what is fetched as soon as it is there."""
        super().finished(unit, inputs, outputs, start)
        for slot, value in zip(unit.outputs, outputs, strict=True):
            for tensor in self._places.get(slot, ()):
                if not self._values[tensor].done():
                    self._values[tensor].set_result(value)

    def feed(self, values: Mapping[Tensor, Array]) -> None:
        """Give values. InvalidArgumentError, and nothing is given, if one is unknown or was given before."""
        for tensor in values:
            if tensor not in self._fed:
                raise errors.InvalidArgumentError(f"{tensor.name!r} is not among the feeds of this partial run")
            if self._fed[tensor].done():
                raise errors.InvalidArgumentError(f"{tensor.name!r} has already been fed in this partial run")
        for tensor, value in values.items():
            self._fed[tensor].set_result(value)

    def check_fetches(self, fetches: Iterable[Tensor | Operation], also_fed: Iterable[Tensor]) -> None:
        """InvalidArgumentError if a fetch is unknown, was fetched before, or needs a feed not given yet."""
        given = {tensor for tensor, future in self._fed.items() if future.done()} | set(also_fed)
        for element in fetches:
            if element not in self._values:
                raise errors.InvalidArgumentError(f"{element.name!r} is not among the fetches of this partial run")
            if element in self._fetched:
                raise errors.InvalidArgumentError(f"{element.name!r} has already been fetched in this partial run")
            missing = _unfed(element, self._fed.keys() - given)
            if missing is not None:
                raise errors.InvalidArgumentError(
                    f"{element.name!r} cannot be fetched yet: it depends on {missing.name!r}, which has not been fed"
                )

    async def fetch(self, tensors: Sequence[Tensor]) -> list[Array]:
        """Values, as soon as they are there. Cancelling ends the whole partial run."""
        self._fetched.update(tensors)
        try:
            return [await self._values[tensor] for tensor in tensors]
        except BaseException:
            await self.stop()
            raise

    @property
    def done(self) -> bool:
        """Whether every feed was given and every fetch taken."""
        return len(self._fetched) == len(self._values) and all(future.done() for future in self._fed.values())

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left."""
        if self._runner is not None:
            if not self.done:
                self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)


def _cancelled(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError)


def _unfed(element: Tensor | Operation, unfed: "set[Tensor]") -> Tensor | None:
    """A feed that `element` depends on and that is not there."""
    seen: set[Operation] = set()
    stack: list[Tensor | Operation] = [element]
    while stack:
        current = stack.pop()
        if isinstance(current, Tensor):
            if current in unfed:
                return current
            current = current.op
        if current not in seen:
            seen.add(current)
            stack.extend(current.inputs)
            stack.extend(current.control_inputs)
    return None
