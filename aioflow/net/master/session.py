"""A session in its master: the graph, the plans on all tasks, the steps [P15 section 3.3].

A step is one RunGraph for each task that takes part, from the master or from another task. Tasks request values from
each other, never from the master. The first error ends the step on all tasks, and the client receives it.
"""

import asyncio
import functools
import itertools
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from aioflow import errors
from aioflow.config import Config
from aioflow.devices.cpu import Threads
from aioflow.devices.device import DeviceAttributes
from aioflow.graph.device_spec import task_of
from aioflow.graph.graph import Graph
from aioflow.net.master.attempt_tasks import AttemptTasks
from aioflow.net.master.callable_run import CallableRun
from aioflow.net.master.doubts import Doubt, Doubts, StepCleanup
from aioflow.net.master.registered_plans import RegisteredPlan, RegisteredPlans
from aioflow.net.master.shared_graphs import Addition, GraphState, SharedGraph, SharedGraphs
from aioflow.net.peer.peers import Peers, request_unless_busy
from aioflow.net.peer.serving import Requester
from aioflow.net.peer.statuses import attributes, devices_in, statuses_of
from aioflow.net.wire.failures import failure_of
from aioflow.net.wire.master_verbs import StepDone
from aioflow.net.wire.worker_verbs import (
    CancelStep,
    CommitGraph,
    CreateWorkerSession,
    DeleteWorkerSession,
    GraphRan,
    Inspect,
    Inspected,
    RunGraph,
    Status,
)
from aioflow.net.worker.introspection import TaskReport, joined, pack_trace, unpack_trace
from aioflow.net.worker.plan_shares import Share
from aioflow.net.worker.worker import holders_of
from aioflow.plan.pipeline import Signature
from aioflow.plan.placer import Placer
from aioflow.tensors.dtypes import Array
from aioflow.tensors.validation import check_all_fit
from aioflow.tracing import RunMetadata
from aioflow.waiting.tasks import OwnedTasks

_TOLD: Final = 0.1
"""The share of a step's time limit that is kept to find out what the step waits for."""
_LONGEST_TOLD: Final = 0.5
"""Seconds: as long as that at most."""
_RENEWED: Final = 1.0
"""Seconds within which tasks must answer after the loss of one. A later one counts as absent until it is needed."""
_MOST_TOLD: Final = 5
"""So many operations the error of such a step names."""


class Stream(Protocol):
    """A partial run."""

    async def call(self, fetches: Sequence[str], feeds: Mapping[str, Array], token: int) -> StepDone:
        """Give feeds, and return fetches as soon as they are there."""

    async def stop(self) -> None:
        """End it if it still runs, and wait until nothing of it is left."""


class MasterSession:
    """One session of a client's."""

    def __init__(
        self, number: str, owner: Requester | None, config: Config, devices: Sequence[DeviceAttributes], peers: Peers,
        threads: Threads, graphs: SharedGraphs, counts: str = "",
    ) -> None:  # fmt: skip
        self.number: Final = number
        self.counts: Final = counts or number
        self.owner: Final = owner
        self.devices: Sequence[DeviceAttributes] = devices
        self.tasks: Final = list(dict.fromkeys(task_of(device.name) for device in devices))
        self.handles: Final = itertools.count(1)
        self.callables: Final[dict[int, Signature]] = {}
        self.queues: Final[dict[str, tuple[str, bytes]]] = {}
        """The task and the handle of each live queue, by the name of its handle."""
        self.doubts: Final = Doubts(self.settle)
        """The steps whose values the client has not acknowledged."""
        self.streams: Final[dict[str, Stream]] = {}
        """The partial runs."""
        self._graphs: Final = graphs
        self._graph = GraphState(SharedGraph(), 0)
        self.config: Final = config
        self.peers: Final = peers
        self.plans: Final = RegisteredPlans(number, config, Placer(config, devices, number), peers, threads)
        self._threads: Final = threads
        self.attempts: Final = AttemptTasks(peers)
        self._extending: Final = asyncio.Lock()
        self._numbers: Final = itertools.count(1)
        self.under_way: Final[dict[int, int]] = {}
        """The steps, by how all tasks know them: their numbers in this session."""
        self._work: Final = OwnedTasks()
        self.cleanup: Final = StepCleanup(peers, len(self.tasks))
        self.stale: bool = False
        """Whether a task was lost, and may have restarted since."""
        self._lost_reported = ""
        """The lost tasks named by the errors of steps, since the session was renewed."""
        self._renewing: Final = asyncio.Lock()

    # The graph

    @property
    def graph(self) -> Graph:
        """The graph. It may have more operations than the client has sent: see `shared_graphs`."""
        return self._graph.graph

    @property
    def version(self) -> int:
        """The number of operations that the client has sent."""
        return self._graph.version

    def signature(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> Signature:
        """The call of these names. InvalidArgumentError if the graph has no such tensor or operation."""
        try:
            tensors: Any = [self.graph.as_graph_element(name, allow_operation=False) for name in (*feeds, *fetches)]
            operations: Any = [self.graph.as_graph_element(name, allow_tensor=False) for name in targets]
        except (TypeError, ValueError, KeyError) as error:
            raise errors.InvalidArgumentError(str(error)) from None
        return Signature(tuple(tensors[: len(feeds)]), tuple(tensors[len(feeds) :]), tuple(operations))

    async def extend(self, data: bytes, constants: Mapping[str, Array], version: int) -> None:
        """Add operations to the graph. AbortedError if it has not as many as the client believes."""
        async with self._extending:
            if self.version != version:
                raise errors.AbortedError(f"the session's graph has {self.version} operations, not {version}")
            self._graph = await self._graphs.extended(self._graph, Addition(data, constants))

    async def _renew(self, deadline: float | None) -> None:
        """Make the session anew on all tasks that can be reached, with the devices that they have now."""
        async with self._renewing:
            if not self.stale:
                return
            limit = asyncio.get_running_loop().time() + _RENEWED
            limit = limit if deadline is None else min(limit, deadline)
            statuses = await statuses_of(self.tasks, self.peers, limit)
            now = {device.name: attributes(device) for device in devices_in(statuses)}
            lost = self._lost_state(now)
            there = [task for task, found in statuses.items() if isinstance(found, Status)]
            await self.begin(there, deadline)
            self.devices = [now.get(device.name, device) for device in self.devices]
            self.plans.placer.use(self.devices)
            self.plans.forget()
            self.stale, self._lost_reported = False, ""
            self.plans.holding.difference_update(lost)
        if lost:
            raise errors.AbortedError(
                f"{' and '.join(lost)} has restarted since the last step: its state for this session, such as "
                "variables and queues, is gone. The next step runs; initialize or restore what it needs first"
            )

    def _lost_state(self, now: Mapping[str, DeviceAttributes]) -> list[str]:
        """Return the restarted tasks that held state and that no step has reported yet."""
        anew = {task_of(device.name) for device in self.devices if now.get(device.name, device) != device}
        return [task for task in self.tasks if task in anew & self.plans.holding and task not in self._lost_reported]

    async def begin(self, tasks: Sequence[str], deadline: float | None) -> None:
        """Make the session on these tasks."""
        await self.peers.ask_all(dict.fromkeys(tasks, CreateWorkerSession(self.number, self.counts)), deadline)

    # Steps

    async def run(
        self, signature: Signature, feeds: Sequence[Array], options: Mapping[str, Any], deadline: float | None,
        token: int, metadata: RunMetadata | None = None, attempt: tuple[int, ...] = (), trace: str = "",
    ) -> StepDone:  # fmt: skip
        """Run a call. The result says whether the client must commit and acknowledge the step by its token.

        In every case the step leaves nothing on reachable tasks. After its deadline the error names what it waited for.
        With `metadata` the step is traced, and its measured times are added to the cost model.
        """
        check_all_fit([(tensor.name, tensor.spec) for tensor in signature.feeds], feeds)
        try:
            shared = await self.registered_plan(functools.partial(self.plans.of, signature), deadline)
            return await self._run(shared, feeds, options, deadline, token, metadata, attempt, trace)
        except errors.OpError as error:
            self.note_failure(error)
            raise

    def run_at_once(self, signature: Signature, feeds: Sequence[Array], token: int) -> CallableRun | None:
        """Run a call without a time limit, in no asyncio task. None if its plan must be registered, or renewed, first.

        The tasks of the step are the same as in `run`, and so are its errors and what it leaves.
        """
        shared = None if self.stale else self.plans.known(signature)
        if shared is None or not shared.is_known(self.peers):
            return None
        check_all_fit([(tensor.name, tensor.spec) for tensor in signature.feeds], feeds)
        step = secrets.randbits(64)
        requests = self._requests(shared, step, feeds, {}, (), alone=False)
        self.step_started(step)
        self.doubts.step_started(token, Doubt(step, tuple(shared.shares)))
        run = CallableRun(self, shared, step, token)
        run.begin(requests)
        return run

    def run_ended(self, step: int, token: int) -> None:
        """Forget that the step of a `CallableRun` runs."""
        self.doubts.step_ended(token)
        self.step_ended(step)

    async def run_failed(self, shared: RegisteredPlan, step: int, error: BaseException) -> None:
        """End the step of a `CallableRun` on all of its tasks with that error."""
        await self.end(step, shared.shares, error)
        self.note_failure(error)

    async def registered_plan(
        self, ready: Callable[[], Awaitable[RegisteredPlan]], deadline: float | None
    ) -> RegisteredPlan:
        """Return the plan of a call, which `ready` registers, on connected tasks.

        If a task was lost since, the session is renewed, once.
        """
        if not self.stale:
            try:
                shared = await ready()
            except errors.AbortedError:
                self.stale = True
            else:
                await self.peers.settled(shared.shares)
                self.stale = not shared.is_known(self.peers)
        if self.stale:
            await self._renew(deadline)
            shared = await ready()
        return shared

    def note_failure(self, error: BaseException | None) -> None:
        """Note the end of a step. If its error names a lost task, the next step looks for that task."""
        if isinstance(error, errors.AbortedError | errors.UnavailableError):
            self.stale = True
            self._lost_reported += str(error)

    async def _run(
        self, shared: RegisteredPlan, feeds: Sequence[Array], options: Mapping[str, Any], deadline: float | None,
        token: int, metadata: RunMetadata | None, attempt: tuple[int, ...], trace: str,
    ) -> StepDone:  # fmt: skip
        step = secrets.randbits(64)
        self.attempts.record(attempt, shared.shares)
        requests = self._requests(shared, step, feeds, options, attempt, alone=metadata is not None)
        number = self.step_started(step)
        try:
            with self.doubts.running(token, Doubt(step, tuple(shared.shares))):
                answers = await self._run_to_end(step, requests, shared.shares, deadline, trace)
        finally:
            self.step_ended(step)
        if metadata is not None:
            metadata.step_id = number
            doubt = Doubt(step, holders_of(answers), shared.takes)
            await self._unless_cancelled(doubt, self._learn(shared, answers, metadata))
        return self.run_done(shared, step, answers, token, metadata)

    def run_done(
        self, shared: RegisteredPlan, step: int, answers: Mapping[str, GraphRan], token: int,
        metadata: RunMetadata | None = None,
    ) -> StepDone:  # fmt: skip
        """Return the answer to the client of a step that has run on all tasks.

        CancelledError if the client has refused the values; then the tasks give the step back.
        """
        holders = holders_of(answers)
        lasting = [task for task in shared.lasting if task not in holders]
        if lasting:
            self.cleanup.schedule_end(step, lasting)
        if holders:
            self.in_doubt(token, Doubt(step, holders, shared.takes))
        fetched: list[Any] = [None] * len(shared.plan.signature.fetches)
        for task, answer in answers.items():
            for place, index in enumerate(shared.shares[task].fetches):
                fetched[index] = answer.values[place]
        held = bool(holders and token)
        traced = b"" if metadata is None else pack_trace(metadata)
        return StepDone(tuple(fetched), traced, held, held and shared.takes)

    def _requests(
        self, shared: RegisteredPlan, step: int, feeds: Sequence[Array], options: Mapping[str, Any],
        attempt: tuple[int, ...], alone: bool,
    ) -> dict[str, RunGraph]:  # fmt: skip
        """The requests of a step: to the tasks that ask the others, or to each task alone."""

        def request(share: Share) -> RunGraph:
            given = tuple([feeds[index] for index in share.feeds])
            return RunGraph(self.number, shared.number, step, given, options, attempt, alone)

        return {task: request(shared.shares[task]) for task in (shared.shares if alone else shared.asked)}

    def in_doubt(self, token: int, doubt: Doubt) -> None:
        """Record that the client gets the values of a step. CancelledError if it has refused them."""
        if not self.doubts.begin(token, doubt):
            raise errors.CancelledError("the client does not wait for the step any more")

    async def commit(self, doubt: Doubt, deadline: float | None) -> None:
        """Commit a step on its tasks: they no longer give it back by themselves."""
        await self.peers.ask_all(
            dict.fromkeys(doubt.tasks, CommitGraph(doubt.step, doubt.settled is not None)), deadline
        )

    async def _unless_cancelled(self, doubt: Doubt, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException:
            self.settle(doubt, False)
            raise

    def settle(self, doubt: Doubt, received: bool) -> None:
        """Tell the tasks of a step whether the client has its values."""
        if doubt.settled is not None:
            doubt.settled(received)
        elif received:
            self.cleanup.schedule_end(doubt.step, doubt.tasks)
        else:
            self.cleanup.refused(doubt.step, doubt.tasks)

    def step_started(self, step: int) -> int:
        """The step is under way until it `step_ended`. Its number in this session."""
        number = self.under_way[step] = next(self._numbers)
        return number

    def step_ended(self, step: int) -> None:
        """The step is not under way any more."""
        del self.under_way[step]

    async def _run_to_end(
        self, step: int, requests: Mapping[str, RunGraph], tasks: Iterable[str], deadline: float | None, trace: str
    ) -> dict[str, Any]:
        """Return the answers to the requests. Any failure ends the step on all of its tasks."""
        try:
            if deadline is None:
                return await self.peers.ask_all(requests, trace=trace)
            return await self._in_time(step, requests, tasks, deadline, trace)
        except BaseException as error:
            await asyncio.shield(self.start_task(self.end(step, tasks, error)))
            raise

    async def _in_time(
        self, step: int, requests: Mapping[str, RunGraph], tasks: Iterable[str], deadline: float, trace: str
    ) -> dict[str, Any]:
        """The same with a time limit. When it expires, the tasks report the waits of the step before it ends."""
        asked = asyncio.ensure_future(self.peers.ask_all(requests, deadline, trace))
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # if that is raised, it was seen to
        try:
            await asyncio.wait([asked], timeout=_told_in_time(deadline) - asyncio.get_running_loop().time())
            if not asked.done():
                raise await self._timeout_error(step, tasks)
            return asked.result()
        finally:
            asked.cancel()
            await asyncio.wait([asked])

    async def _timeout_error(self, step: int, tasks: Iterable[str]) -> errors.DeadlineExceededError:
        """Return the error of a step whose time limit expired, with its running operations and their waits."""
        limit = asyncio.get_running_loop().time() + _LONGEST_TOLD / 2
        number = self.under_way[step]
        report = (await self.inspected(tasks, limit, self.under_way)).report
        waits = [wait for wait in report.waits if wait.step == number]
        stuck = sorted(waits, key=lambda wait: (bool(wait.what), wait.op_type == "recv", -wait.seconds))
        cycles = [cycle for cycle in report.cycles if any(edge.step == number for edge in cycle.edges)]
        lines = [*map(str, stuck[:_MOST_TOLD]), *report.absent, *map(str, cycles)]
        text = "; ".join([each.replace("\n    at ", ", at ") for each in lines])
        task = stuck[0].task if stuck else None
        return errors.DeadlineExceededError(f"the time of the step is over: {text or 'it was about to end'}", task=task)

    async def inspected(self, tasks: Iterable[str], limit: float | None, steps: Mapping[int, int]) -> TaskReport:
        """Return the reports on these steps from the tasks that answer in time."""
        names = list(tasks)
        asked = [self._inspect(task, limit) for task in names]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        reports, absent = [], []
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, errors.OpError):
                absent.append(f"{name}: {answer.message}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                reports.append(TaskReport.unpack(bytes(answer.report)))
        return joined(reports, absent, steps)

    async def _inspect(self, task: str, limit: float | None) -> Inspected:
        return await request_unless_busy(await self.peers.of_unless_busy(task), Inspect(), limit)

    async def _learn(self, shared: RegisteredPlan, answers: Mapping[str, Any], metadata: RunMetadata) -> None:
        """Join the traces of all tasks, and add their times to the cost model."""
        for task, answer in answers.items():
            peer = self.peers.connected(task)
            unpack_trace(bytes(answer.metadata), metadata, 0.0 if peer is None else peer.clock_offset)
        nodes = [node for share in shared.shares.values() for part in share.parts for node in part.flow.nodes]
        learn = functools.partial(self.plans.placer.model.learn, nodes, metadata.step_stats, metadata.transfers)
        await self._threads.run(learn, "learning what nodes take")

    def start_task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task of the session's, which ends before it does."""
        return self._work.start(work, "for a session")

    async def end(self, step: int, tasks: Iterable[str], error: BaseException | None) -> None:
        """Tell the connected tasks that a step is over, or end it there with an error."""
        if error is None:
            self.cleanup.over(step, tasks)
            return
        if isinstance(error, asyncio.CancelledError):
            error = errors.CancelledError("the run was cancelled")
        await self.notify_all(dict.fromkeys(tasks, CancelStep(step, failure_of(error, ""))))

    async def notify_all(self, requests: Mapping[str, Any]) -> None:
        """Send each connected task its request. Does not wait for the answers of busy tasks."""
        await self.peers.notify_all(requests, self.config.close_timeout)

    async def close(self) -> None:
        """Forget the plans, here and on all tasks that can be reached."""
        await asyncio.gather(*[stream.stop() for stream in list(self.streams.values())])
        self.doubts.close()
        self.cleanup.close()
        await self._work.ended()
        await self.plans.ended()
        await self.notify_all(dict.fromkeys(self.tasks, DeleteWorkerSession(self.number)))
        await self._work.ended()  # steps that this has ended


def _told_in_time(deadline: float) -> float:
    """Return the time at which a step with that deadline must end, so that its error can name its waits in time."""
    left = max(0.0, deadline - asyncio.get_running_loop().time())
    return deadline - min(left * _TOLD, _LONGEST_TOLD)
