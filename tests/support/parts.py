"""Parts of one step run side by side in virtual time: units and transfers take as long as a test says."""

import asyncio
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import aioflow as af
import aioflow.kernels.control.transfer  # declares send and recv
from aioflow.executor import Execution
from aioflow.kernels.context import Context
from aioflow.plan.partition import Part, partition
from aioflow.plan.passes.compress import Compression
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.passes.prune import prune
from aioflow.plan.placement.colocation import is_everywhere
from aioflow.program.assemble import assemble
from aioflow.rendezvous import Key, LocalRendezvous
from aioflow.resources.containers import Resources

DEVICES = A, B, C, D = [f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in range(4)]


def parts_of(fetches: Sequence[af.Tensor], feeds: Sequence[af.Tensor] = (), places: Any = None) -> list[Part]:
    """The parts of a call, placed by `places`: a mapping of operations to names."""
    flow = prune(feeds, fetches, ())
    chosen = {node: places[node.operation] for node in flow.nodes if not is_everywhere(node)}
    return partition(flow, chosen, dict.fromkeys(chosen.values(), 1), Compression())


def flows_of(parts: Sequence[Part]) -> dict[str, Flow]:
    """Their flows, by device."""
    return {part.device: part.flow for part in parts}


class Memory:
    """Counts the bytes of arrays that are alive."""

    def __init__(self) -> None:
        self.live = self.peak = 0

    def allocated(self, array: np.ndarray) -> np.ndarray:
        """The array, counted as long as it lives."""
        self.live += array.nbytes
        self.peak = max(self.peak, self.live)
        weakref.finalize(array, self._freed, array.nbytes)
        return array

    def _freed(self, size: int) -> None:
        self.live -= size


class World:
    """One step over several devices: what is received is a copy, made while the transfer lasts."""

    id = 1
    trace = None

    def __init__(self, transfer: Callable[[int, str, str], float], seconds: Callable[[Node, str], float]) -> None:
        self.rendezvous = self
        self.memory = Memory()
        self._resources = Resources()
        self._table = LocalRendezvous()
        self._transfer = transfer
        self._seconds = seconds
        self._links: dict[tuple[str, str], asyncio.Lock] = {}

    def send(self, key: Key, value: Any) -> None:
        self._table.send(key, value)

    async def recv(self, key: Key) -> Any:
        transfer = await self._table.recv(key)
        value = transfer.value
        if not isinstance(value, np.ndarray):
            return transfer
        async with self._links.setdefault((key.edge.source, key.edge.target), asyncio.Lock()):
            mine = self.memory.allocated(np.empty_like(value))
            await asyncio.sleep(self._transfer(value.nbytes, key.edge.source, key.edge.target))
        mine[...] = value
        return transfer._replace(value=mine)

    journal = None

    def times_run(self, name: str) -> int:
        return 0

    def check(self) -> None:
        pass

    async def run(
        self,
        parts: Sequence[Part],
        flows: Mapping[str, Flow],
        fetches: int,
        feeds: Sequence[Any] = (),
        fused: bool = True,
    ) -> list[Any]:
        """Run the parts; what was fetched, in order."""
        found: list[Any] = [None] * fetches
        with np.errstate(all="ignore"):
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(self._run_part(part, flows[part.device], feeds, fused, found))
        assert not self._table.close()
        return found

    async def _run_part(self, part: Part, flow: Flow, feeds: Sequence[Any], fused: bool, found: list[Any]) -> None:
        context = Context(np, self._resources, self)
        program = assemble(flow, context, fused=fused, stream=False).linked(context)
        execution = Execution(program, _Host(context, functools.partial(self._seconds_of, part.device)))
        values = await execution.run([feeds[index] for index in part.feeds])
        for index, value in zip(part.fetches, values, strict=True):
            found[index] = value

    def _seconds_of(self, device: str, nodes: Sequence[Node]) -> float:
        return sum(self._seconds(node, device) for node in nodes)


class _Host:
    """A device that does one thing after the other, and takes its time."""

    ended = False

    def __init__(self, context: Context, seconds: Callable[[Sequence[Node]], float]) -> None:
        self.context = context
        self._seconds = seconds
        self._turn = asyncio.Lock()

    async def pause(self) -> None:
        await asyncio.sleep(0)

    async def inline(self, unit: Any, bucket: int, coroutine: Any) -> Any:
        async with self._turn:
            await asyncio.sleep(self._seconds(unit.nodes))
        try:
            while True:
                coroutine.send(None)
        except StopIteration as done:
            return done.value

    def exchanging(self, coroutine: Any) -> Any:
        return coroutine

    def keeps(self, unit: Any, bucket: int) -> bool:
        return False

    def offload(self, unit: Any, bucket: int, coroutine: Any, stop: Any) -> Any:
        return self.inline(unit, bucket, coroutine)

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    def pending_operations(self) -> str:
        return ""

    def finished(self, unit: Any, inputs: Any, outputs: Any, start: float) -> None:
        pass
