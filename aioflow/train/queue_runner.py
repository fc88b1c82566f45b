"""Queue runners: tasks that fill queues until the input ends or a coordinator stops them."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.graph.building import get_default_graph
from aioflow.graph.default_session import current_session
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.library.queues import QueueBase
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr
from aioflow.train.coordinator import Coordinator
from aioflow.waiting.tasks import slice_of

Step = Callable[[], Awaitable[Any]]


class QueueRunner:
    """Fills a queue by running operations again and again, each in its own task.

    A task ends when its operation raises one of `queue_closed_exception_types`, the sign of the end of the input. The
    last of these tasks closes the queue, whose elements can still be taken. Any other error stops the coordinator. When
    the coordinator stops, the queue is closed, pending enqueues are cancelled, and the tasks end. Cancelling the tasks
    without a stop leaves the queue open: a queue of a cluster outlives the sessions that fill it, and other sessions
    may go on filling it.

    Args:
        queue: the queue.
        enqueue_ops: operations that fill it; an operation that appears several times has as many tasks.
        close_op: closes the queue at the end of the input; built here by default.
        cancel_op: closes it at once; built here by default.
        queue_closed_exception_types: the errors at the end of the input; OutOfRangeError by default.
        queue_runner_def: a result of `to_proto`: the runner whose operations are in the default graph already. Excludes
            the rest.
        import_scope: the scope that the operations of `queue_runner_def` were imported under.

    Examples:
        >>> queue = af.FIFOQueue(10, [af.int32], shapes=[[]])
        >>> runner = af.train.QueueRunner(queue, [queue.enqueue(7)])
        >>> af.train.add_queue_runner(runner)
    """

    def __init__(
        self,
        queue: QueueBase | None = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Operation | None = None,
        cancel_op: Operation | None = None,
        queue_closed_exception_types: tuple[type[errors.OpError], ...] | None = None,
        queue_runner_def: Mapping[str, Any] | None = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError("queue_runner_def excludes queue and enqueue_ops")
            queue, enqueue_ops, close_op, cancel_op, queue_closed_exception_types = _find(
                get_default_graph(), queue_runner_def, import_scope
            )
        if queue is None:
            raise ValueError("a queue runner needs a queue and enqueue_ops")
        if not isinstance(queue, QueueBase):
            raise TypeError(f"a queue runner fills a queue of the graph, not {safe_repr(queue)}")
        if not enqueue_ops:
            raise ValueError(f"a runner of queue {queue.name!r} needs operations to run")
        self.queue: Final = queue
        self.enqueue_ops: Final = list(enqueue_ops)
        self.queue_closed_exception_types: Final = _check_classes(queue_closed_exception_types)
        self.close_op: Final = queue.close() if close_op is None else close_op
        self.cancel_op: Final = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._started: weakref.WeakSet[Session] = weakref.WeakSet()
        self._raised: list[Exception] = []

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.queue.name

    @property
    def exceptions_raised(self) -> list[Exception]:
        """The errors of tasks without a coordinator, since the tasks were last created."""
        return self._raised

    def was_started(self, sess: Session) -> bool:
        """Whether its tasks were ever created for that session."""
        return sess in self._started

    def create_tasks(
        self, sess: Session, coord: Coordinator | None = None, daemon: bool = False, start: bool = True
    ) -> list[asyncio.Task[None]]:
        """Create a running task for each operation, and one that closes the queue when the coordinator stops.

        Returns None if its tasks for that session still run.

        Args:
            sess: the session of the operations. Closing it ends the tasks.
            coord: owns the tasks. Without one the caller owns them, ends and awaits them; their errors are in
                `exceptions_raised`.
            daemon: for compatibility: a task never keeps a program alive.
            start: for compatibility: a task begins when it is created.

        Raises:
            ValueError: `start` is false.
        """
        if not start:
            raise ValueError("a task begins when it is created: call create_threads() when they should begin")
        if any(work.runner is self for work in _at_work.get(sess, ())):
            return []
        steps = {op: sess.make_callable(op) for op in dict.fromkeys(self.enqueue_ops)}
        self._raised = []
        self._started.add(sess)
        return _Work(self, sess, coord).begin([steps[op] for op in self.enqueue_ops])

    create_threads = create_tasks

    def to_proto(self, export_scope: str | None = None) -> dict[str, Any] | None:
        """Return the names of its parts, for `queue_runner_def`. None if it lies outside `export_scope`."""
        prefix = export_scope.rstrip("/") + "/" if export_scope else ""
        if not self.queue.queue_ref.name.startswith(prefix):
            return None
        graph = self.queue.graph
        enqueues = [graph.as_graph_element(each).name.removeprefix(prefix) for each in self.enqueue_ops]
        return {
            "queue_name": self.queue.queue_ref.name.removeprefix(prefix),
            "queue_names": self.queue.names,
            "enqueue_op_name": enqueues,
            "close_op_name": self.close_op.name.removeprefix(prefix),
            "cancel_op_name": self.cancel_op.name.removeprefix(prefix),
            "queue_closed_exception_types": [kind.__name__ for kind in self.queue_closed_exception_types],
        }

    @staticmethod
    def from_proto(queue_runner_def: Mapping[str, Any], import_scope: str | None = None) -> "QueueRunner":
        """Return the runner of `to_proto`; its operations are in the default graph. KeyError if they are not."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)

    def __repr__(self) -> str:
        return f"<af.train.QueueRunner of {len(self.enqueue_ops)} operations that fill {self.queue!r}>"


def _find(graph: Graph, parts: Mapping[str, Any], import_scope: str | None) -> tuple[Any, ...]:
    """Return the queue, its operations and the errors that a result of `to_proto` names."""
    prefix = import_scope.rstrip("/") + "/" if import_scope else ""
    handle = graph.get_tensor_by_name(prefix + parts["queue_name"])
    items = QueueSpec.check(handle.spec).items
    queue = QueueBase([item.dtype for item in items], [item.shape for item in items], parts["queue_names"], handle)
    enqueues = [graph.as_graph_element(prefix + name) for name in parts["enqueue_op_name"]]
    ends = [graph.get_operation_by_name(prefix + parts[key]) for key in ("close_op_name", "cancel_op_name")]
    kinds = tuple([getattr(errors, name) for name in parts["queue_closed_exception_types"]])
    return queue, enqueues, *ends, kinds


class _Work:
    """The work of one runner in one session, from the creation of its tasks to the end of the last one."""

    def __init__(self, runner: QueueRunner, sess: Session, coord: Coordinator | None) -> None:
        self.runner: Final = runner
        self._sess: Final = sess
        self._coord: Final = coord
        self._tasks: list[asyncio.Task[None]] = []
        self._closer: asyncio.Task[None] | None = None
        self._running = 0
        self._left = 0
        self._is_over = False

    def begin(self, steps: Sequence[Step]) -> list[asyncio.Task[None]]:
        """Create a task for each step, and the one that waits for the coordinator's stop."""
        create = _create if self._coord is None else self._coord.create_task
        name = self.runner.queue.queue_ref.op.name
        self._running = self._left = len(steps)
        _at_work.setdefault(self._sess, []).append(self)
        for number, step in enumerate(steps):
            task = create(self._run(step), name=f"queue runner {number} of {name!r}")
            task.add_done_callback(self._note_end)
            self._tasks.append(task)
        if self._coord is None:
            return list(self._tasks)
        self._closer = create(self._close_on_stop(self._coord), name=f"closer of {name!r}")
        return [*self._tasks, self._closer]

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        if not self._running:
            _at_work[self._sess].remove(self)

    async def _run(self, step: Step) -> None:
        """Run the step until the input ends; then close the queue, if no other runner fills it."""
        try:
            await self._repeat(step)
        except self.runner.queue_closed_exception_types:
            if not self._left:
                await self._input_ended()
        except Exception as error:
            if self._sess.closed:  # the closing task handles that
                return
            if self._coord is not None:
                raise
            self.runner.exceptions_raised.append(error)

    async def _repeat(self, step: Step) -> None:
        """Run the step again and again until the coordinator stops; the loop gets a turn in between."""
        piece, coord = slice_of(asyncio.get_running_loop()), self._coord
        try:
            while coord is None or not coord.should_stop():
                piece.begin()
                await step()
                if piece.used_up():
                    await asyncio.sleep(0)
        finally:
            self._left -= 1

    async def _input_ended(self) -> None:
        fillers = [work for work in _at_work[self._sess] if work.runner.queue is self.runner.queue]
        if not any(work._left for work in fillers):
            await self._run_quietly(self.runner.close_op)
        self._is_over = True
        if self._closer is not None:
            self._closer.cancel()

    async def _close_on_stop(self, coord: Coordinator) -> None:
        """Wait for the coordinator to stop; then, even if cancelled, close the queue and end the tasks that fill it."""
        try:
            await coord.wait_for_stop()
        finally:
            if coord.should_stop() and not self._is_over:
                await self._run_quietly(self.runner.cancel_op)
                for task in self._tasks:
                    task.cancel()

    async def _run_quietly(self, op: Operation) -> None:
        """Close the queue, if the queue and the session are open."""
        if not self._sess.closed:
            with contextlib.suppress(errors.CancelledError):
                await self._sess.run(op)


_at_work: Final["weakref.WeakKeyDictionary[Session, list[_Work]]"] = weakref.WeakKeyDictionary()


def _create(coroutine: Any, name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


def _check_classes(kinds: Any) -> tuple[type[errors.OpError], ...]:
    """Return the classes of errors at the end of the input."""
    if kinds is None:
        return (errors.OutOfRangeError,)
    if not isinstance(kinds, tuple) or not kinds or not all(issubclass(kind, errors.OpError) for kind in kinds):
        raise TypeError(f"queue_closed_exception_types must be a tuple of classes of af.errors, not {kinds!r}")
    return kinds


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add the runner to those of the default graph that `start_queue_runners` starts.

    Examples:
        >>> queue = af.FIFOQueue(10, [af.int32], shapes=[[]])
        >>> af.train.add_queue_runner(af.train.QueueRunner(queue, [queue.enqueue(7)]))
        >>> len(af.get_collection(af.GraphKeys.QUEUE_RUNNERS))
        1
    """
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Session | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[asyncio.Task[None]]:
    """The tasks of all queue runners of the session's graph, running: see `QueueRunner.create_tasks`.

    Args:
        sess: what runs the operations; the default session by default.
        coord: owns the tasks.
        daemon: for compatibility.
        start: for compatibility: must be true.
        collection: the collection of the graph that holds the runners.

    Raises:
        ValueError: there is no default session.
        TypeError: `sess` is no session.

    Examples:
        >>> queue = af.train.string_input_producer(["a.txt"])
        >>> coordinator = af.train.Coordinator()
        >>> tasks = af.train.start_queue_runners(session, coordinator)
        >>> await session.run(queue.dequeue())
        b'a.txt'
        >>> coordinator.request_stop()
        >>> await coordinator.join(tasks)
    """
    session: Any = current_session() if sess is None else sess
    if not isinstance(session, Session):
        raise TypeError(f"queue runners run in a session, not in {safe_repr(session)}")
    runners: list[QueueRunner] = session.graph.get_collection(collection)
    return [task for runner in runners for task in runner.create_tasks(session, coord, daemon, start)]
