"""Partial runs over several tasks [P15 section 4.2]: given feeds, and asked for fetches, call by call.

Feeds come to the master's own task, and fetches from there: the plan has copies of them on its first device, and from
device to device they go as all values do. So only there a step waits for feeds; to the other tasks it is like any.
"""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.executor import Execution
from aioflow.graph.device_spec import task_of
from aioflow.graph.operation import Tensor
from aioflow.net.master.doubts import Doubt
from aioflow.net.master.registered_plans import RegisteredPlan
from aioflow.net.master.session import MasterSession
from aioflow.net.wire.failures import first_error
from aioflow.net.wire.master_verbs import StepDone
from aioflow.net.wire.worker_verbs import RunGraph
from aioflow.net.worker.plan_shares import senders_to, shares_of
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous
from aioflow.net.worker.worker import Worker
from aioflow.plan.partition import Part
from aioflow.plan.pipeline import Plan, Signature, make_plan
from aioflow.program.program import Outputs, Programs
from aioflow.runtime.partial_run import PartialRun, Streamed
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import StepShare
from aioflow.tensors.dtypes import Array
from aioflow.tensors.validation import check_all_fit


class _StreamedShares(Streamed):
    """The master's part of a partial run, and with it those of the other tasks."""

    __slots__ = ("_others",)

    def __init__(
        self,
        state: SessionState,
        plan: Plan,
        programs: Programs,
        share: StepShare,
        others: Callable[[], Awaitable[Any]],
    ) -> None:
        self._others: Final = others
        super().__init__(state, plan, programs, share)

    async def _run_share(self, executions: Sequence[Execution], programs: Programs, feeds: Outputs) -> list[Array]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._with_others())
                return await super()._run_share(executions, programs, feeds)
        except BaseExceptionGroup as several:
            raise first_error(several) from None

    async def _with_others(self) -> None:
        await self._others()

    def returned(self) -> None:
        """The client acknowledges the values of each call."""


class PartialOverTasks:
    """A partial run of a session of this master.

    Attributes:
        session: whose.
        handle: how the client knows it.
    """

    def __init__(self, session: MasterSession, worker: Worker, shared: RegisteredPlan, limit: float | None) -> None:
        self.session: Final = session
        self.handle: Final = secrets.token_hex(8)
        self._worker: Final = worker
        self._shared: Final = shared
        self._step: Final = secrets.randbits(64)
        self._requests: Final = dict.fromkeys(shared.asked, RunGraph(session.number, shared.number, self._step))
        shares = shares_of(shared.plan.parts)
        self._tasks: Final = tuple(shares)
        self._takes: Final = any(share.takes for share in shares.values())
        self._is_kept = False
        """Whether it has ended by itself, and the tasks keep its taken elements for later calls."""
        self._run: Final = PartialRun(self._begun(), shared.plan, limit)

    @classmethod
    async def begin(
        cls, session: MasterSession, worker: Worker, signature: Signature, limit: float | None
    ) -> "PartialOverTasks":
        """Plan it, register its parts with the other tasks, and begin it. `limit` is for each call of it."""
        deadline = None if limit is None else asyncio.get_running_loop().time() + limit
        try:
            shared = await session.registered_plan(functools.partial(_registered, session, worker, signature), deadline)
        except errors.OpError as error:
            session.note_failure(error)
            raise
        made = cls(session, worker, shared, limit)
        session.streams[made.handle] = made
        return made

    def _begun(self) -> Streamed:
        own = [part for part in self._shared.plan.parts if task_of(part.device) == self._worker.task]
        step = self._worker.stream(self._step, senders_to(own), functools.partial(self._streamed, own))
        self.session.step_started(self._step)
        step.runner.add_done_callback(functools.partial(self._over, step))
        return step

    def _streamed(self, own: Sequence[Part], state: SessionState, rendezvous: RemoteRendezvous) -> Streamed:
        share = StepShare(self._step, self.session.counts, rendezvous)
        programs = state.plans.assembled(own, "streamed")
        ask = functools.partial(self.session.peers.ask_all, self._requests)
        return _StreamedShares(state, self._shared.plan, programs, share, ask)

    def _over(self, step: Streamed, runner: "asyncio.Task[None]") -> None:
        """End the run on all tasks. They keep the elements it took without a failure, until the client has them."""
        self.session.step_ended(self._step)
        self.session.note_failure(step.failure)
        self._is_kept = self._takes and step.failure is None
        if not self._is_kept:
            self._end(step.failure)
        self.session.start_task(self.session.plans.deregister(self._shared))

    def _end(self, failure: errors.OpError | None) -> None:
        self._worker.step_table.end(self._step, failure)
        self.session.start_task(self.session.end(self._step, dict.fromkeys(self._tasks), failure))

    async def call(self, fetches: Sequence[str], feeds: Mapping[str, Array], token: int) -> StepDone:
        """Give feeds, and return fetches as soon as they are there. The client commits and acknowledges them."""
        find: Any = functools.partial(self.session.graph.as_graph_element, allow_operation=False)
        try:
            given: dict[Tensor, Array] = {find(name): value for name, value in feeds.items()}
            wanted = [find(name) for name in fetches]
        except (TypeError, ValueError, KeyError) as error:
            raise errors.InvalidArgumentError(str(error)) from None
        check_all_fit([(tensor.name, tensor.spec) for tensor in given], list(given.values()))
        values = tuple(await self._run.call(wanted, given))
        if self._takes and self._run.hands_over(wanted):
            self.session.in_doubt(token, Doubt(self._step, self._tasks, settled=self._settled))
            return StepDone(values, held=bool(token), uncommitted=bool(token))
        if self._run.hands_over(wanted):
            self.session.cleanup.handed_over(self._step, self._tasks)
        self._end_if_used_up()
        return StepDone(values)

    @property
    def known(self) -> Doubt:
        """Return the doubt whether the client has the handle. A client without the handle cannot end the run."""
        return Doubt(self._step, (), uncommitted=False, settled=self._settled_handle)

    def _settled_handle(self, received: bool) -> None:
        if not received:
            self.session.start_task(self.stop())

    def _settled(self, received: bool) -> None:
        """The client has the values of a call, and with them all that was taken so far; or it has given the run up."""
        if received:
            self.session.cleanup.handed_over(self._step, self._tasks)
            self._end_if_used_up()
        else:
            self.session.cleanup.refused(self._step, self._tasks)
            self.session.start_task(self.stop())

    def _end_if_used_up(self) -> None:
        """Nothing of it is left anywhere once the client has all of its values."""
        if self._is_kept and self._run.used_up:
            self._is_kept = False
            self._end(None)

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left. It is forgotten."""
        self.session.streams.pop(self.handle, None)
        with contextlib.suppress(errors.OpError):
            await self._run.stop()
        if self._is_kept:
            self._is_kept = False
            self.session.cleanup.refused(self._step, self._tasks)


async def _registered(session: MasterSession, worker: Worker, signature: Signature) -> RegisteredPlan:
    """The plan of a partial run of that worker's, registered with the other tasks."""
    split = functools.partial(session.plans.placer.split, streamed=True, home=worker.home)
    make = functools.partial(make_plan, signature, split, session.config.optimize)
    plan: Plan = await session.plans.work(make, session.graph)
    shares = {task: share for task, share in shares_of(plan.parts).items() if task != worker.task}
    return await session.plans.register(plan, shares, ())
