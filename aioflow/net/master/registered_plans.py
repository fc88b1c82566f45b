"""The plans of a session, which its master makes and registers with the workers that run their shares."""

import asyncio
import dataclasses
import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from aioflow.config import Config
from aioflow.devices.cpu import Threads
from aioflow.graph.graph import Graph
from aioflow.graph.op import Op
from aioflow.net.master.fan_out import fan_out
from aioflow.net.peer.peers import Peers, RequestTarget
from aioflow.net.wire.worker_verbs import DeregisterGraph, RegisterGraph
from aioflow.net.worker.plan_shares import Share, shares_of
from aioflow.net.worker.registration import registration
from aioflow.plan.pipeline import Plan, Signature, make_flow, make_plan
from aioflow.plan.placement.report import Placement
from aioflow.plan.placer import Placer
from aioflow.runtime.plan_cache import LONG_PLAN
from aioflow.runtime.planning_thread import plan_on
from aioflow.waiting.tasks import OwnedTasks

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredPlan:
    """A plan that is registered with its workers.

    Attributes:
        plan: the plan.
        number: the number under which it is registered on each task.
        shares: by task, its share of the plan.
        asked: the tasks that the master asks to run their shares; these ask the others.
        takes: whether one of the shares may take elements.
        lasting: the tasks on which a step lasts after their shares have run.
        peers: the connections to the tasks when they had registered it. A task with another one may have restarted.
    """

    plan: Plan
    number: int
    shares: Mapping[str, Share]
    asked: Sequence[str]
    takes: bool
    lasting: Sequence[str]
    peers: Mapping[str, RequestTarget | None]

    def is_known(self, peers: Peers) -> bool:
        """Whether its tasks can be reached now, and have not lost the connection since they registered it."""
        return all(peer is not None and peers.reachable(task) is peer for task, peer in self.peers.items())


class RegisteredPlans:
    """Those of one session.

    Attributes:
        placer: places the nodes of the session's calls.
        holding: the tasks that may have variables, queues or the like of this session.
    """

    def __init__(
        self, session: str, config: Config, placer: Placer, peers: Peers, threads: Threads,
    ) -> None:  # fmt: skip
        self.placer: Final = placer
        self.holding: Final[set[str]] = set()
        self._session: Final = session
        self._config: Final = config
        self._peers: Final = peers
        self._threads: Final = threads
        self._numbers: Final = itertools.count(1)
        self._found: Final[OrderedDict[Signature, asyncio.Task[RegisteredPlan]]] = OrderedDict()
        self._work: Final = OwnedTasks()

    async def of(self, signature: Signature) -> RegisteredPlan:
        """The plan of a call, registered; made once, however many ask for it."""
        known = self.known(signature)
        if known is not None:
            return known
        found = self._found.get(signature)
        if found is None or found.done():
            found = self._found[signature] = self._work.start(self._made(signature), "registering a plan")
            found.add_done_callback(functools.partial(self._forget_failed, signature))
            if len(self._found) > self._config.plan_cache_size:
                self._drop(self._found.popitem(last=False)[1])
        self._found.move_to_end(signature)
        try:
            return await asyncio.shield(found)
        finally:
            del found  # its error refers to this frame

    def _forget_failed(self, signature: Signature, made: "asyncio.Task[RegisteredPlan]") -> None:
        """Forget a plan that is not registered. Its error would keep the feeds of the calls that have raised it."""
        failed = made.cancelled() or made.exception() is not None
        if failed and self._found.get(signature) is made:
            del self._found[signature]

    def known(self, signature: Signature) -> RegisteredPlan | None:
        """The plan of a call, if it is registered."""
        found = self._found.get(signature)
        if found is None or not found.done() or found.cancelled() or found.exception() is not None:
            return None
        self._found.move_to_end(signature)
        return found.result()

    async def _made(self, signature: Signature) -> RegisteredPlan:
        plan = await self.work(functools.partial(self._plan, signature), signature.graph)
        shares = shares_of(plan.parts)
        apart = [task for task, share in shares.items() if share.feeds or share.fetches or self._peers.is_own(task)]
        return await self.register(plan, shares, apart)

    def _plan(self, signature: Signature) -> Plan:
        """The plan of a call, which other sessions of the graph may have made."""
        graph, optimize = signature.graph, self._config.optimize
        make = functools.partial(make_plan, signature, self.placer.split, optimize)
        if graph is None or self._config.log_device_placement:  # each session logs its own placements
            return make()
        call = signature, optimize, Op.kernel_changes
        return self.placer.shared(graph.memo, call, make_flow(signature, optimize), None, make)

    async def register(self, plan: Plan, shares: Mapping[str, Share], apart: Sequence[str]) -> RegisteredPlan:
        """Make these shares of a plan ready on their tasks. The master asks the tasks in `apart` by itself.

        If one of them cannot be registered, none stays registered.
        """
        number, takes = next(self._numbers), any(share.takes for share in shares.values())
        hosts = self._peers.by_host(shares)
        others = shares.keys() - set(apart)
        tree = fan_out([task for host in hosts for task in host if task in others])

        def write() -> dict[str, RegisterGraph]:
            return {
                host[0]: registration(
                    self._session, number, {task: shares[task] for task in host}, plan.counted, takes, tree.below
                )
                for host in hosts
            }

        requests = await self.work(write, plan.signature.graph)
        try:
            await self._peers.ask_all(requests)
        except BaseException:
            self._work.start(self._deregister(number, shares), "dropping a plan")
            raise
        self.holding.update(task for task, share in shares.items() if share.holds)
        lasting = [task for task, share in shares.items() if share.lasts]
        peers = {task: self._peers.connected(task) for task in shares}
        return RegisteredPlan(plan, number, shares, [*apart, *tree.asked], takes, lasting, peers)

    async def deregister(self, plan: RegisteredPlan) -> None:
        """It is not needed any more."""
        await self._deregister(plan.number, plan.shares)

    async def _deregister(self, number: int, tasks: Iterable[str]) -> None:
        request = DeregisterGraph(self._session, number)
        await self._peers.notify_all(dict.fromkeys(tasks, request), self._config.close_timeout)

    async def work(self, function: Callable[[], T], graph: Graph | None) -> T:
        """Call the function, on a thread if the graph is so large that the call may take long."""
        long = graph is not None and graph.planning_work > LONG_PLAN
        return await plan_on(self._threads, function) if long else function()

    async def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why."""
        find = functools.partial(make_flow, signature, self._config.optimize)
        return await self.work(lambda: self.placer.placement(find()), signature.graph)

    def drop_all(self) -> None:
        """Forget all plans, here and on all tasks."""
        for registering in self._found.values():
            self._drop(registering)
        self._found.clear()

    def forget(self) -> None:
        """Forget all plans here: the tasks have forgotten them."""
        self._found.clear()

    def _drop(self, registering: "asyncio.Task[RegisteredPlan]") -> None:
        """Deregister a plan that is not needed any more, as soon as its registration has ended."""
        self._work.start(self._drop_registered(registering), "dropping a plan")

    async def _drop_registered(self, registering: "asyncio.Task[RegisteredPlan]") -> None:
        await asyncio.wait([registering])
        if not registering.cancelled() and registering.exception() is None:
            await self.deregister(registering.result())

    async def ended(self) -> None:
        """Wait until no plan is being made, registered or dropped."""
        await self._work.ended()
