"""The steps of a task as other tasks see them: the values sent and received between tasks, and the end of a step.

Another task may request a value of a step, or push one to it, before the step begins here. A step that sends values
lasts until the master reports its end on all tasks, so that all values are received.
"""

import contextlib
import copy
import functools
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.devices.transfer import Transfer, receive
from aioflow.kernels.control.control_flow import DEAD
from aioflow.net.peer.peer import Peer
from aioflow.net.peer.peers import Peers, RequestTarget
from aioflow.net.peer.reconnect import Loss
from aioflow.net.peer.serving import Call
from aioflow.net.wire.control_verbs import Reply
from aioflow.net.wire.failures import error_of, failure_of
from aioflow.net.wire.worker_verbs import (
    CancelStep,
    CleanupGraph,
    CommitGraph,
    GetStatus,
    PushTensors,
    RecvTensor,
    TensorSent,
)
from aioflow.net.worker.remote_rendezvous import Outbox, RemoteRendezvous, keys_of, numbers_of
from aioflow.net.worker.worker_state import WorkerStep, is_lost, is_same
from aioflow.rendezvous import Key
from aioflow.runtime.session_state import SessionState
from aioflow.tensors.received_memory import made_read_only
from aioflow.waiting.tasks import OwnedTasks

_REMEMBERED: Final = 10_000
"""The number of ended steps that are remembered as ended."""
_EARLY: Final = 256 << 20
"""Bytes that may come unasked for steps that have not begun."""
_AHEAD: Final = 256 << 20
"""Bytes that may come unasked for a step that has begun, before they are received."""
_ENTRY: Final = 512
"""Bytes that a value takes beside its own."""
_TOGETHER: Final = 1 << 20
"""Bytes of values that an answer has at most, if it has several."""


class StepTable:
    """Those of one task.

    Attributes:
        open: the steps that are not over.
    """

    def __init__(self, task: str, state: SessionState, peers: Peers) -> None:
        self.task: Final = task
        self.open: Final[dict[int, WorkerStep]] = {}
        self._device: Final = state.devices[0]
        self._sources: Final = frozenset(device.incarnation for device in state.devices)
        """The incarnations of the devices of this task."""
        self._peers: Final = peers
        self._over: Final[OrderedDict[int, errors.OpError | None]] = OrderedDict()
        """The steps that are over, with a copy of the error that has ended them; its traceback is not kept."""
        self._dialling: Final[set[str]] = set()
        self._tasks: Final = OwnedTasks()
        self._early = 0
        """Bytes that have come unasked for steps that have not begun."""

    # From beginning to end

    def check(self, step: int) -> None:
        """AbortedError if the step of that number is over; its own error if it lacked room, as its repetition would."""
        if step in self._over:
            cause = self._over[step]
            if isinstance(cause, errors.ResourceExhaustedError):
                raise copy.copy(cause)
            raise errors.AbortedError(f"step {step:x} is over on {self.task}")

    def at(self, step: int) -> WorkerStep:
        """The step of that number. AbortedError if it is over."""
        found = self.open.get(step)
        if found is None:
            self.check(step)
            rendezvous = RemoteRendezvous(
                self.task, functools.partial(self._ask, step), functools.partial(self._outbox_to, step)
            )
            found = self.open[step] = WorkerStep(rendezvous)
        return found

    async def _ask(self, step: int, task: str, keys: Sequence[Key]) -> dict[int, Transfer]:
        """Values of some of the keys that a device of another task sends, by their places."""
        peer = await self._peers.of(task)
        request = RecvTensor(step, keys[0].edge.incarnation, tuple(map(numbers_of, keys)))
        answer = await peer.request(request)
        found = dict(zip(answer.places, answer.values, strict=False))
        if not found or len(answer.places) != len(answer.values) or not found.keys() <= set(range(len(keys))):
            raise errors.InternalError(f"{task} has answered with values that were not asked for")
        return {place: Transfer(made_read_only(value), foreign=True) for place, value in found.items()}

    def _outbox_to(self, step: int, task: str) -> Outbox:
        """How a step sends values to a task unasked."""
        connected = functools.partial(self._connected, step, task)
        return Outbox(step, task, connected, self._peers.of, self._device, functools.partial(self.broken, step))

    def _connected(self, step: int, task: str) -> RequestTarget | None:
        """The connection by which a step pushes values to a task.

        To the task of its master the values go over the master's own connection: they arrive together with the answer.
        """
        worker_step = self.open.get(step)
        owner = None if worker_step is None else worker_step.owner
        if isinstance(owner, Peer) and owner.remote.task == task and owner.end is None and not owner.interrupted:
            return owner
        return self._peers.connected(task)

    def end(self, step: int, error: errors.OpError | None) -> None:
        """End a step, and keep nothing of it.

        Args:
            step: the number of the step.
            error: the error that ends it; None if it has ended on all tasks, or runs only on this one.
        """
        self._over[step] = None if error is None else copy.copy(error)
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        worker_step = self.open.pop(step, None)
        if worker_step is None:
            return
        self.step_started(worker_step)
        if error is None:
            worker_step.rendezvous.close()
        else:
            worker_step.rendezvous.abort(error)
            if worker_step.rendezvous.pushed_to:  # it may never begin there
                self._begin(self._end_there(step, worker_step.rendezvous.pushed_to, error))
            worker_step.undo.now()
            worker_step.handover.ended(error)
        if worker_step.step is not None:
            worker_step.step.abort(error or errors.CancelledError("the step is over"))

    def broken(self, step: int, error: errors.OpError) -> None:
        """End a step that cannot continue here with that error, unless it has run and holds takes or puts.

        Then the master, which may have the values of the step, decides how it ends. The tasks that it sends to get the
        error.
        """
        worker_step = self.open.get(step)
        if worker_step is None or not worker_step.handover:
            self.end(step, error)
        elif worker_step.rendezvous.pushed_to:
            self._begin(self._end_there(step, worker_step.rendezvous.pushed_to, error))

    def _sweep(self, step: int, worker_step: WorkerStep) -> None:
        """Forget a step that has never begun, when no request for it is waiting."""
        if (
            not worker_step.begun
            and not worker_step.asking
            and worker_step.owner is None
            and self.open.get(step) is worker_step
        ):
            del self.open[step]

    async def _end_there(self, step: int, tasks: Iterable[str], error: errors.OpError) -> None:
        for task in tasks:
            with contextlib.suppress(errors.OpError):  # a task that cannot be reached has noticed the loss, too
                await self._tell(task, CancelStep(step, failure_of(error, self.task)))

    async def _tell(self, task: str, request: CancelStep) -> None:
        """Send a cancel to a task. A restarted task does not notice the end of an old connection: it is told again."""
        try:
            await (await self._peers.of(task)).request(request)
        except errors.UnavailableError:
            await (await self._peers.of(task)).request(request)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """A task of the worker's."""
        self._tasks.start(work, f"{self.task} for its peers")

    # What it sends, and gets

    async def send(self, call: Call) -> TensorSent:
        """Values that were, or will be, sent in a step: some that are there. It waits for the step to begin, too."""
        message: Any = call.message
        keys = keys_of(message.incarnation, message.keys)
        if not keys:
            raise errors.InvalidArgumentError("values of no keys are asked for")
        if message.incarnation not in self._sources:
            raise errors.AbortedError(f"{self.task} has restarted: step {message.step:x} knows the one before")
        worker_step = self.at(message.step)
        worker_step.asking += 1
        try:
            found = await worker_step.rendezvous.here.recv_any(keys, _up_to(_together(call)))
        finally:
            worker_step.asking -= 1
            self._sweep(message.step, worker_step)
        return TensorSent(tuple([place for place, _ in found]), tuple([await self._on_host(sent) for _, sent in found]))

    async def _on_host(self, transfer: Transfer) -> Any:
        if transfer.source is None:
            return transfer.value
        return await receive(transfer, self._device, host=True)

    def arrive(self, call: Call) -> None:
        """Accept pushed values of a step, which may not have begun here. Values of an ended step are ignored."""
        message: Any = call.message
        worker_step = self.open.get(message.step)
        if worker_step is None:
            if message.step in self._over:
                return
            worker_step = self.at(message.step)
        if worker_step.owner is None and not worker_step.begun:
            worker_step.owner = call.peer  # until the step begins, it lasts as long as its sender
        assert call.peer is not None  # a task sends nothing to itself
        worker_step.pushers.add(call.peer)
        if not self._has_room(worker_step, message.values):
            kept = f"a step: {_AHEAD}" if worker_step.begun else f"steps that have not begun: {_EARLY}"
            text = f"{self.task} keeps no more values that other tasks push to {kept} bytes"
            self.broken(message.step, errors.ResourceExhaustedError(text, task=self.task))
            return
        worker_step.rendezvous.arrive(keys_of(message.incarnation, message.keys), message.values)

    def refuse(self, call: Call, error: errors.OpError) -> None:
        """End the step of pushed values that cannot be received."""
        message: Any = call.message
        if message.step not in self._over:
            self.broken(message.step, error)

    def _has_room(self, worker_step: WorkerStep, values: Iterable[Any]) -> bool:
        """Whether these values can be kept until they are received; from now on they are."""
        more = _kept_bytes(values)
        if worker_step.begun:
            worker_step.ahead += more
            if worker_step.ahead > _AHEAD:
                waiting = [transfer.value for transfer in worker_step.rendezvous.pushed_here]
                worker_step.ahead = _kept_bytes(waiting) + more
            return worker_step.ahead <= _AHEAD
        self._early += more
        worker_step.early += more
        return self._early <= _EARLY

    def step_started(self, worker_step: WorkerStep) -> None:
        """Hand the step over to its run: it has begun here, or is over."""
        self._early -= worker_step.early
        worker_step.early = 0
        worker_step.begun = True

    def cleanup(self, call: Call) -> None:
        """Handle notes about steps: they are over, their taken elements belong to the client, or it refuses them."""
        message: Any = call.message
        for step in message.steps:
            worker_step = self.open.get(step)
            if not message.received:
                if worker_step is not None:
                    worker_step.held.refuse()
                self.end(step, errors.CancelledError("the client does not wait for the values of the step"))
            elif message.over:
                self.end(step, None)
            elif worker_step is not None:
                worker_step.held.forget()

    async def cancel(self, call: Call) -> Reply:
        """End a step, here with the error that ended it elsewhere."""
        message: Any = call.message
        worker_step = self.open.get(message.step)
        if worker_step is None or not worker_step.handover or is_same(worker_step.owner, call.peer):
            self.end(message.step, error_of(message.cause))  # else its master ends it
        return Reply()

    async def commit(self, call: Call) -> Reply:
        """Commit a step: the client may have its values from now on. AbortedError if its elements were put back."""
        message: Any = call.message
        worker_step = self.open.get(message.step)
        if worker_step is not None and (worker_step.handover or message.partial):
            worker_step.held.set_committed()
        elif not message.partial or self._over.get(message.step) is not None:
            raise errors.AbortedError(f"step {message.step:x} is over on {self.task}, which has put back its elements")
        return Reply()

    # Those who are gone

    def listen_to(self, tasks: Iterable[str]) -> None:
        """Connect to the tasks that push values, so that this task notices their loss."""
        for task in tasks:
            if self._peers.connected(task) is None and task not in self._dialling:
                self._dialling.add(task)
                self._begin(self._dial(task))

    async def _dial(self, task: str) -> None:
        """Connect to a task. If it has restarted, the values that it should have pushed will never come."""
        try:
            self._check_incarnations(task, await self._devices_of(task))
        except errors.OpError as error:
            self._end_all(lambda worker_step: task in worker_step.senders, error)
        finally:
            self._dialling.discard(task)

    async def _devices_of(self, task: str) -> dict[str, int]:
        """The incarnations of the devices of a task, of the process that lives now."""
        while True:
            peer = await self._peers.of(task)
            try:
                status = await peer.request(GetStatus())
            except errors.OpError:
                if not _has_ended(peer):
                    raise
            else:
                return {device.name: device.incarnation for device in status.devices}

    def _check_incarnations(self, task: str, now: Mapping[str, int]) -> None:
        for number, worker_step in list(self.open.items()):
            expected = worker_step.senders.get(task, {})
            if any(now.get(device) != incarnation for device, incarnation in expected.items()):
                self.broken(number, errors.AbortedError(f"{task} has restarted during the step", task=task))

    def lost(self, peer: Peer, error: errors.OpError) -> None:
        """End the steps that have pushed values over a lost connection.

        Steps that wait for values pushed by the other task end, too. If a process of that task has ended, another one
        may have taken its place, and steps that wait for the new process go on: this task dials it to find these steps.
        """
        task, has_ended = peer.remote.task, _has_ended(peer)
        self._end_all(lambda worker_step: worker_step.rendezvous.has_pushed_to(peer), error)
        if not has_ended:
            self._end_all(lambda worker_step: task in worker_step.senders, error)
        elif any(task in worker_step.senders for worker_step in self.open.values()):
            self.listen_to([task])

    def _end_all(self, concerns: Callable[[WorkerStep], bool], error: errors.OpError) -> None:
        """End these steps, but for those that have run and taken something: they end as their masters say."""
        for number, worker_step in list(self.open.items()):
            if not worker_step.handover and concerns(worker_step):
                self.end(number, error)

    def forget_lost(self) -> None:
        """The steps end of masters that are lost, and of tasks that are lost and may send to them."""
        for number, worker_step in list(self.open.items()):
            if is_lost(worker_step.owner):
                error = errors.UnavailableError("the master that began the step is lost")
                self.end(number, None if worker_step.stays else error)
            elif not worker_step.handover and (lost := next(filter(is_lost, worker_step.pushers), None)):
                task = lost.remote.task
                self.end(number, errors.UnavailableError(f"{task} is lost, which sends to {self.task}", task=task))

    async def close(self) -> None:
        """End all steps."""
        for number in list(self.open):
            self.end(number, errors.UnavailableError(f"{self.task} is stopping", task=self.task))
        await self._tasks.stop()


def _has_ended(peer: object) -> bool:
    """Whether it is another task whose process has ended."""
    return isinstance(peer, Peer) and peer.end is not None and peer.end.loss is Loss.ENDED


def _together(call: Call) -> int:
    """The most bytes of several values in the answer."""
    return _TOGETHER if call.peer is None else min(_TOGETHER, call.peer.limits.message)


def _kept_bytes(values: Iterable[Any]) -> int:
    """The bytes that these values take in a table."""
    nbytes = 0
    for value in values:
        nbytes += _ENTRY + getattr(value, "nbytes", 0)
    return nbytes


def _up_to(most: int) -> Callable[[Transfer], bool]:
    """Says of one value after the other whether they have no more bytes than that in all; of texts and lists, no."""
    taken = 0

    def fits(transfer: Transfer) -> bool:
        nonlocal taken
        is_known = hasattr(transfer.value, "dtype") and not transfer.value.dtype.hasobject
        taken += transfer.value.nbytes if is_known else 0 if transfer.value is DEAD else most + 1
        return taken <= most

    return fits


HANDLERS: Final[Mapping[type, Any]] = {
    RecvTensor: StepTable.send,
    CancelStep: StepTable.cancel,
    CommitGraph: StepTable.commit,
}
"""The handler of each request."""
NOTES: Final[Mapping[type, Any]] = {PushTensors: StepTable.arrive, CleanupGraph: StepTable.cleanup}
"""The handler of each note."""
REFUSED: Final[Mapping[type, Any]] = {PushTensors: StepTable.refuse}
"""The handlers of notes whose values cannot be received."""
