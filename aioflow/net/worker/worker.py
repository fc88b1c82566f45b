"""A worker: it runs its partitions of each step, and sends values to other tasks that request them."""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence, Sized
from typing import Any, Final, TypeVar

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.devices.cpu import Threads
from aioflow.devices.device import AnyDevice, DeviceAttributes, attributes_of
from aioflow.graph.memo import Memo
from aioflow.graph.operation import describe_line
from aioflow.kernels.context import Undo
from aioflow.net.peer.peers import Peers
from aioflow.net.peer.serving import Call, Requester
from aioflow.net.spans import step_span
from aioflow.net.wire.control_verbs import Reply
from aioflow.net.wire.digests import HASHED, digest, size
from aioflow.net.wire.failures import first_error
from aioflow.net.wire.fields import Device, ticket_of
from aioflow.net.wire.schema import Answer, Request
from aioflow.net.wire.worker_verbs import (
    AttemptTakenBack,
    CreateWorkerSession,
    DeleteWorkerSession,
    DeregisterGraph,
    DropContainers,
    GetStatus,
    GraphRan,
    Inspect,
    Inspected,
    QueueServed,
    RegisterGraph,
    RunGraph,
    ServeQueue,
    Status,
    TakeBack,
    Traced,
)
from aioflow.net.wire.worker_verbs import Trace as TraceVerb
from aioflow.net.worker.exchanging_share import ExchangingShare
from aioflow.net.worker.introspection import pack_trace, report_of_task
from aioflow.net.worker.plan_shares import Senders
from aioflow.net.worker.queue_service import QueueService
from aioflow.net.worker.registration import passed_on, registered
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous
from aioflow.net.worker.step_table import StepTable
from aioflow.net.worker.worker_state import Registered, WorkerSession, WorkerStep, is_lost
from aioflow.plan.passes.flow import Node
from aioflow.program.program import Program, Unit
from aioflow.rendezvous import LocalRendezvous
from aioflow.resources.journal import Journal, Journals
from aioflow.runtime.exchange_step import ExchangeStep
from aioflow.runtime.partial_run import Streamed
from aioflow.runtime.plan_cache import DEFAULT, Variant
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step, StepShare, light_step, run_light
from aioflow.tensors.dtypes import Array
from aioflow.tensors.validation import check_all_fit, check_options
from aioflow.tracing import RunMetadata, Trace
from aioflow.waiting.handover import Handover

A = TypeVar("A", bound=Answer)
R = TypeVar("R")
_OPTIONS: Final = frozenset({"check_numerics", "trace"})
"""The options of a run that a worker knows."""
_LONG: Final = 1 << 12
"""Bytes of a graph above which it is read, and compiled, on a thread: that takes over 4 ms."""
_KEPT: Final = 32
"""The most shares and programs that are kept for other sessions."""
_MOST_KEPT: Final = 4 << 20
"""Bytes of a share: a larger one is not kept."""


class Worker:
    """The worker's side of a task.

    Attributes:
        step_table: the steps that run here, as other tasks see them.
        on_run: called with the number of nodes of a share that is about to run; a simulation takes time for them.
    """

    def __init__(self, task: str, state: SessionState, peers: Peers) -> None:
        self.task: Final = task
        self._state: Final = state
        self._devices: Final[dict[str, AnyDevice]] = {device.name: device for device in state.devices}
        self._sessions: Final[dict[str, WorkerSession]] = {}
        self.step_table: Final = StepTable(task, state, peers)
        self._peers: Final = peers
        self._recorders: Final[list[RunMetadata]] = []
        self._live: Final = QueueService(state.resources, self.step_table)
        self._journals: Final = Journals()
        self._memo: Final = Memo(_KEPT)
        """The shares and programs registered last, by the digests of their messages: sessions share them."""
        self.on_run: Callable[[int], None] | None = None

    # What there is

    @property
    def home(self) -> DeviceAttributes:
        """Its first device."""
        return attributes_of(self._state.devices[0])

    @property
    def compute(self) -> Threads:
        """Its threads for work that belongs to no device."""
        return self._state.compute

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices, as others see them."""
        found = [attributes_of(device) for device in self._state.devices]
        return tuple([Device(d.name, d.device_type, d.incarnation, d.memory_limit) for d in found])

    async def status(self, call: Call) -> Status:
        """How it is."""
        found: dict[str, Sized] = {
            "sessions": self._sessions, "meetings": self.step_table.open, "steps": self._state.steps,
        }  # fmt: skip
        counters = {name: len(things) for name, things in found.items()}
        return Status(self.devices, counters)

    async def inspect(self, call: Call) -> Inspected:
        """Return the waits of its steps, the contents of its memory, and the busy tasks among those that it dials."""
        found = report_of_task(self._state, self._peers.connections())
        absent = tuple([f"{task}: it is {text}" for task, text in self._peers.busy_dialled().items()])
        return Inspected(dataclasses.replace(found, report=dataclasses.replace(found.report, absent=absent)).pack())

    async def trace(self, call: Call) -> Traced:
        """Return the trace of the steps that end within the given seconds."""
        message: Any = call.message
        recorder = RunMetadata()
        self._recorders.append(recorder)
        try:
            await asyncio.sleep(message.seconds)
        finally:
            self._recorders.remove(recorder)
        return Traced(pack_trace(recorder))

    async def serve_queue(self, call: Call) -> QueueServed:
        """Do something with a live queue."""
        return await self._live.serve(call)

    # Sessions and graphs

    async def create_session(self, call: Call) -> Reply:
        """Make the state of a session. It lasts as long as its master is connected."""
        message: Any = call.message
        before = self._sessions.get(message.session)
        self._sessions[message.session] = WorkerSession(call.peer, message.counts or message.session, before)
        return Reply()

    async def drop_containers(self, call: Call) -> Reply:
        """Drop state. Steps that wait for it end with an error. Later steps look the state up again."""
        message: Any = call.message
        self._state.resources.drop(message.containers)
        for session in self._sessions.values():
            session.forget_before()
        return Reply()

    async def delete_session(self, call: Call) -> Reply:
        """Forget its graphs."""
        message: Any = call.message
        self._forget(message.session)
        return Reply()

    def _forget(self, session: str) -> None:
        """Forget a session, and with it the containers that belong to it alone."""
        forgotten = self._sessions.pop(session, None)
        self._state.resources.forget(session)
        if forgotten is not None and all(other.counts != forgotten.counts for other in self._sessions.values()):
            self._state.resources.forget(forgotten.counts)

    async def register(self, call: Call) -> Reply:
        """Make the shares of a plan ready, here and on the other tasks of the message.

        InvalidArgumentError if a share cannot be run.
        """
        message: Any = call.message
        try:
            others = {task: passed_on(message, task) for task in message.graphs if task != self.task}
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self.task}: {error}") from None
        await self._with_others(self._register_own(message), others, call.deadline)
        return Reply()

    async def _register_own(self, message: Any) -> None:
        session, graph = self._session(message.session), message.graphs.get(self.task)
        if graph is None:
            raise errors.InvalidArgumentError(
                f"{self.task} is none of the tasks of the graph: {', '.join(message.graphs)}"
            )
        read = functools.partial(self._read, graph, message)
        long = len(graph) > _LONG or size(graph, message.constants, HASHED) > HASHED
        made = await self._state.compute.run(read, "reading a graph") if long else read()
        session.graphs[message.number] = made

    def _read(self, graph: bytes, message: Any) -> Registered:
        memo = self._memo if size(graph, message.constants, _MOST_KEPT) <= _MOST_KEPT else None
        key = None if memo is None else digest(graph, message.constants)
        decode = functools.partial(registered, graph, message.constants)
        try:
            registration = decode() if memo is None else memo.get(key, decode)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self.task}: {error}") from None
        for part in registration.parts:
            if part.device not in self._devices:
                raise errors.InvalidArgumentError(f"{self.task} has no {part.device}: {', '.join(self._devices)}")
            for node in part.flow.nodes:
                self._check_registered(node)
        made = Registered(self._state, registration, message.takes, memo, key)
        made.programs(self._state.plans.variant(DEFAULT))
        return made

    def _check_registered(self, node: Node) -> None:
        """PermissionDeniedError, naming it, if a function is called in it that is not registered here."""
        for inner in node.everything():
            if inner.definition.name != "py_func":
                continue
            try:
                self._state.py_func(str(inner.attrs["func"]))
            except errors.PermissionDeniedError as error:
                line = describe_line(inner.operation)
                raise error.at(inner.name, "py_func", line=line, device=None, shapes=()) from None

    async def deregister(self, call: Call) -> Reply:
        """Forget a graph."""
        message: Any = call.message
        self._session(message.session).forget(message.graph)
        return Reply()

    def _session(self, number: str) -> WorkerSession:
        if number not in self._sessions:
            raise errors.AbortedError(f"{self.task} does not know the session: it has restarted, or has dropped it")
        return self._sessions[number]

    # Steps

    async def run(self, call: Call) -> GraphRan:
        """Run its partitions of a step, and ask the tasks below it to run theirs."""
        message: Any = call.message
        _, graph = self._registered(message)
        others = {} if message.alone else dict.fromkeys(graph.below, message)
        with step_span(call.trace, self.task, message.step):
            ran, answers = await self._with_others(self._run_share(call), others, call.deadline, call.trace)
        return dataclasses.replace(ran, holders=holders_of(answers)) if answers else ran

    async def _with_others(
        self, own: Coroutine[Any, Any, R], requests: Mapping[str, Request[A]], deadline: float | None, trace: str = ""
    ) -> tuple[R, Mapping[str, A]]:
        """The result of this task's work and the answers of others. The first error cancels the rest."""
        if not requests:
            return await own, {}
        try:
            async with asyncio.TaskGroup() as group:
                others = group.create_task(self._peers.ask_all(requests, deadline, trace))
                done = group.create_task(own)
        except BaseExceptionGroup as several:
            raise first_error(several) from None
        return done.result(), others.result()

    async def _run_share(self, call: Call) -> GraphRan:
        """Run its partitions of a step. A failed or cancelled run leaves nothing behind."""
        message: Any = call.message
        session, graph = self._registered(message)
        check_all_fit(graph.feeds, message.feeds)
        check_options(message.options, _OPTIONS)
        journal = self._journal(message, graph)
        worker_step = self.step_table.at(message.step)
        if worker_step.begun:
            raise errors.AlreadyExistsError(f"step {message.step:x} runs already")
        self._share_begins(worker_step, session.owner, graph)
        options = self._run_options(message.options)
        metadata = RunMetadata()
        trace = Trace(metadata, self._state.devices[0].name) if options.trace else None
        share = StepShare(message.step, session.counts, worker_step.rendezvous)
        step = worker_step.step = Step(
            self._state, graph.counted, trace, options.check_numerics, share=share, journal=journal
        )
        if journal is not None:
            journal.begin(message.step)
        try:
            fetched = await step.run(await graph.ready(self._variant(options)), message.feeds, None)
        except BaseException as error:
            cancelled = errors.CancelledError("the run was cancelled")
            self.step_table.end(
                message.step, errors.from_exception(error) if isinstance(error, Exception) else cancelled
            )
            raise
        finally:
            worker_step.step = None
            if journal is not None:
                journal.end(message.step)
        worker_step.undo, worker_step.handover = step.common(Undo), step.handover
        held = bool(worker_step.handover)
        if journal is not None and held:
            journal.undo(functools.partial(_give_back, journal, step.handover, graph.handed_over))
        if not (graph.lasts or held):
            self.step_table.end(message.step, None)
        worker_step.rendezvous.flush()  # before the answer
        for recorder in self._recorders:
            recorder.add_step(message.step, metadata)
        packed = pack_trace(metadata) if options.trace else b""
        return _ran(fetched, packed, held)

    def _share_begins(self, worker_step: WorkerStep, owner: Requester | None, graph: Registered) -> None:
        """Note that the share of a step is about to run."""
        self.step_table.step_started(worker_step)
        worker_step.owner, worker_step.senders = owner, graph.senders
        worker_step.only_puts = not graph.takes
        self.step_table.listen_to(graph.senders)
        self._begins(graph)

    def _journal(self, message: Any, graph: Registered) -> Journal | None:
        """The journal of the step's attempt; None without an attempt. AbortedError if the attempt is being undone."""
        if not message.attempt:
            return None
        journal = self._journals.of(ticket_of(message.attempt))
        journal.leaves(graph.lasting)
        return journal

    async def take_back(self, call: Call) -> AttemptTakenBack:
        """Undo an attempt on this task, and refuse its later steps."""
        message: Any = call.message
        journal = self._journals.known(ticket_of(message.attempt))
        if journal is None:
            return AttemptTakenBack((f"the changes of the run on {self.task}, which has forgotten them",))
        journal.close()
        ended = errors.AbortedError("the run is repeated: this attempt is cancelled", task=self.task)
        for step in list(journal.steps):
            self.step_table.end(step, ended)
        await journal.idle()
        return AttemptTakenBack(journal.take_back())

    def _registered(self, message: Any) -> tuple[WorkerSession, Registered]:
        session = self._session(message.session)
        graph = session.graph(message.graph)
        if graph is None:
            raise errors.AbortedError(f"{self.task} does not know graph {message.graph}: it has restarted")
        return session, graph

    def _begins(self, graph: Registered) -> None:
        if self.on_run is not None:
            self.on_run(graph.nodes)

    def run_light(self, call: Call) -> GraphRan | ExchangingShare | None:
        """Run a share of one unit at once, or begin to: it is light, or receives. None for others, and with a trace."""
        message: Any = call.message
        session, graph = self._registered(message)
        is_watched = call.trace or message.options or self._recorders
        if is_watched or graph.pushed_to is None or (graph.below and not message.alone):
            return None
        programs = graph.known(self._state.plans.variant(DEFAULT))
        if programs is not None and programs.exchange is not None:
            return self._begin_exchange(call, session, graph, programs.exchange, programs.parts[0].program)
        unit = None if programs is None else programs.single_unit
        if unit is None or unit.waits:
            return None
        feeds = message.feeds
        check_all_fit(graph.feeds, feeds)
        self.step_table.check(message.step)
        if session.light is None:
            session.light = light_step(self._state, StepShare(0, session.counts, LocalRendezvous()))
        self._begins(graph)
        run = functools.partial(
            run_light, self._state, session.light, graph.counted, unit, feeds, self._journal(message, graph)
        )
        fetched = self._run_pushing(session, message.step, run) if graph.pushed_to else run()
        return None if fetched is None else _ran(fetched)

    def _run_pushing(
        self, session: WorkerSession, number: int, run: Callable[..., Sequence[Array] | None]
    ) -> Sequence[Array] | None:
        """Run a light share that pushes values. The step lasts until the master ends it."""
        step = self.step_table.at(number)
        if step.begun:
            return None
        try:
            fetched = run(step.rendezvous)
        except Exception as error:
            self.step_table.end(number, errors.from_exception(error))
            raise
        if fetched is not None:
            self.step_table.step_started(step)
            step.owner = session.owner
            step.rendezvous.flush()  # before the answer
        return fetched

    def _begin_exchange(
        self, call: Call, session: WorkerSession, graph: Registered, unit: Unit, program: Program
    ) -> GraphRan | ExchangingShare | None:
        """Run a share until it waits for a value. None with a time limit, or if the step may have to be undone."""
        message: Any = call.message
        if call.deadline is not None or message.attempt or graph.handed_over:
            return None
        check_all_fit(graph.feeds, message.feeds)
        worker_step = self.step_table.at(message.step)
        if worker_step.begun:
            return None
        self._share_begins(worker_step, session.owner, graph)
        share = StepShare(message.step, session.counts, worker_step.rendezvous)
        step = worker_step.step = ExchangeStep(self._state, graph.counted, share, program)
        run = ExchangingShare(self.step_table, worker_step, message.step, graph.lasts)
        step.start(unit, message.feeds, run.ended)
        return run.answer_now()

    def _run_options(self, options: Mapping[str, Any]) -> RunOptions:
        if not options and not self._recorders:
            return DEFAULT
        is_traced = options.get("trace") is True or bool(self._recorders)
        return RunOptions(check_numerics=options.get("check_numerics") is True, trace=is_traced)

    def _variant(self, options: RunOptions) -> Variant:
        """The program of a run: with checks node by node, though of the plan that the master has made."""
        return "plain" if options.check_numerics else self._state.plans.variant(options)

    def stream(
        self, step: int, senders: Senders, make: Callable[[SessionState, RemoteRendezvous], Streamed]
    ) -> Streamed:
        """This task's part of a step whose feeds arrive meanwhile. `step_table.end` forgets it.

        Args:
            step: its number.
            senders: the tasks that send something unasked.
            make: makes the part.
        """
        worker_step = self.step_table.at(step)
        self.step_table.step_started(worker_step)
        worker_step.owner, worker_step.senders = None, senders
        self.step_table.listen_to(senders)
        streamed = worker_step.step = make(self._state, worker_step.rendezvous)
        return streamed

    # Those who are gone

    def forget_lost(self) -> None:
        """The steps and sessions of masters that are lost end."""
        self.step_table.forget_lost()
        for name, session in list(self._sessions.items()):
            if is_lost(session.owner):
                self._forget(name)

    async def close(self) -> None:
        """End all steps."""
        self._sessions.clear()
        await self.step_table.close()
        with contextlib.suppress(errors.OpError):
            await self._state.abort(errors.UnavailableError(f"{self.task} is stopping", task=self.task))


def _give_back(journal: Journal, handover: Handover, names: Sequence[str]) -> None:
    """Undo the takes and puts of a step. If that is impossible, record that its operations may happen twice."""
    if not handover.refuse():
        journal.leaves(names)


def holders_of(answers: Mapping[str, GraphRan]) -> tuple[str, ...]:
    """The tasks that keep takes and puts of a step, by the answers of some of them."""
    below = [task for answer in answers.values() for task in answer.holders]
    return (*[task for task, answer in answers.items() if answer.held], *below)


def _ran(fetched: Sequence[Array], metadata: bytes = b"", held: bool = False) -> GraphRan:
    return GraphRan(tuple(fetched), metadata, held)


HANDLERS: Final[Mapping[type, Any]] = {
    GetStatus: Worker.status,
    Inspect: Worker.inspect,
    TraceVerb: Worker.trace,
    ServeQueue: Worker.serve_queue,
    DropContainers: Worker.drop_containers,
    CreateWorkerSession: Worker.create_session,
    DeleteWorkerSession: Worker.delete_session,
    RegisterGraph: Worker.register,
    DeregisterGraph: Worker.deregister,
    RunGraph: Worker.run,
    TakeBack: Worker.take_back,
}
"""The handler of each request."""
QUICK: Final[Mapping[type, Any]] = {RunGraph: Worker.run_light}
"""The quick handlers."""
