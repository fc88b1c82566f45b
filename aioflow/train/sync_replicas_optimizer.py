"""Synchronous training of several replicas, with or without backup workers [P16 section 4.4].

A step is the mean of the gradients of several replicas, all computed from the same values of the variables. Each
replica stores each gradient beside its variable, announces them when all are stored, and waits for the next step. The
first announced gradients, as many as required, make the step, for all variables alike; one of the replicas applies
their mean. They are added in the order of replicas, so the result equals, to the last bit, that of one process with
the same shards.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.math.casting import cast
from aioflow.kernels.state import replicas as gradients
from aioflow.kernels.state import replicas as ops
from aioflow.library import control
from aioflow.library.branches import cond
from aioflow.library.state import report_uninitialized_variables
from aioflow.library.variables import Variable
from aioflow.replication.quorum import Dropped, Reason
from aioflow.session import Session
from aioflow.tensors import dtypes
from aioflow.train.coordinator import Coordinator
from aioflow.train.gradient_averages import kept_if
from aioflow.train.moving_averages import ExponentialMovingAverage
from aioflow.train.optimizer import Gradient, Optimizer, WrappingOptimizer, part_of_training, with_gradients
from aioflow.train.replicas import OnDropped, Participation, ReplicaOps, ReplicasHook, beside
from aioflow.train.session_run_hook import SessionRunArgs
from aioflow.train.step_counter import StepBoundary

Pair = tuple[Gradient, Variable]


class _BuiltOps(NamedTuple):
    """The operations that `apply_gradients` has built."""

    ops: ReplicaOps
    ready: Tensor
    accepted: Tensor
    step: Tensor
    dropped: Tensor
    since: Tensor
    there: Tensor


class SyncReplicasOptimizer(WrappingOptimizer):
    """Applies the mean of the gradients of several replicas in each step.

        opt = af.train.SyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.1), 3, 4, task_index=task)
        train = opt.minimize(loss, global_step=step)
        hook = opt.make_session_run_hook(is_chief=task == 0)

    or by hand, in each replica:

        async with af.train.Coordinator() as coord:
            await opt.start(session, coord, is_chief=task == 0)
            while not coord.should_stop():
                await session.run(train)

    Each replica has its own graph, built alike; the shared objects have the name `name` and are on the devices of the
    variables. A replica runs one step at a time. Its train operation waits until the step it contributed to is applied.
    With `replicas_to_aggregate` below `total_num_replicas` the difference are backup workers: a gradient that comes too
    late for a step is dropped; `accepted` reports that in the same run, `dropped` for all replicas, and `requeue` of
    `apply_gradients` puts the examples back. A replica that leaves or is lost no longer counts; a new one does.

    Args:
        opt: the optimizer that applies the means.
        replicas_to_aggregate: number of gradients that make a step; None for one of each present replica.
        total_num_replicas: number of replicas expected from the start; `replicas_to_aggregate` by default.
        variable_averages: moving averages to update after each step.
        variables_to_average: the variables to average; by default the trainable ones.
        use_locking: for compatibility: every update is atomic.
        name: the name of the shared objects.
        task_index: the number of this replica, from 0 on: gradients are added in this order.

    Raises:
        ValueError: a number is invalid, or a step would need more gradients than there are replicas: for several
            gradients of each replica, use a GradientAccumulationOptimizer inside.

    Examples:
        >>> v, step = af.Variable(1.0), af.train.create_global_step()
        >>> descent = af.train.GradientDescentOptimizer(0.1)
        >>> optimizer = af.train.SyncReplicasOptimizer(descent, replicas_to_aggregate=1, total_num_replicas=1)
        >>> train = optimizer.minimize(v * v, global_step=step)
        >>> hook = optimizer.make_session_run_hook(is_chief=True)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     await monitored.run(train)
        ...     print(await monitored.run(v))
        0.8
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int | None,
        total_num_replicas: int | None = None,
        variable_averages: ExponentialMovingAverage | None = None,
        variables_to_average: Iterable[Variable] | None = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
        task_index: int = 0,
    ) -> None:
        super().__init__(opt, use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        if total is None:
            raise ValueError("how many replicas are there? Give replicas_to_aggregate or total_num_replicas")
        if not 1 <= (total if replicas_to_aggregate is None else replicas_to_aggregate) <= total:
            raise ValueError(
                f"{replicas_to_aggregate} gradients cannot be aggregated of {total} replicas, one of each: for several "
                "gradients of each, wrap this optimizer in a GradientAccumulationOptimizer"
            )
        ops.check_replica(task_index)
        self._required: Final = replicas_to_aggregate or 0
        self._total: Final = total
        self._averages: Final = variable_averages
        self._averaged: Final = None if variables_to_average is None else list(variables_to_average)
        self.task_index: Final = task_index
        self._built: _BuiltOps | None = None

    # Building

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Variable | None = None,
        name: str | None = None,
        examples: TensorLike = 1,
        requeue: Callable[[], Any] | None = None,
    ) -> Operation:
        """Return the train operation of this replica: it stores and announces the gradients and waits for the step.

        Args:
            grads_and_vars: (gradient, variable) pairs; pairs without a gradient are ignored.
            global_step: counts the steps. It is required, since it determines the step that training is in.
            name: the name of the operation.
            examples: number of examples behind the gradients, for reports of drops.
            requeue: builds an operation that runs if this gradient was dropped, for example to return its examples:
                `lambda: queue.give_back(example)`. An `enqueue` would wait for room in a queue that only this replica
                takes from, and fail after the end of the data. If it fails, the run fails too, after its step.

        Raises:
            ValueError: there is no global step or no gradient, or gradients were applied before.
        """
        if global_step is None:
            raise ValueError("replicas that train in step need the global_step that counts the steps")
        if self._built is not None:
            raise ValueError(f"{self._name!r} has applied gradients: one optimizer is of one replica")
        pairs = with_gradients(grads_and_vars)
        graph = graph_to_build_in(global_step.graph)
        with graph.transaction(), graph.as_default(), graph.name_scope(name or self._name) as scope:
            graph.on_failure(lambda: setattr(self, "_built", None))
            return _Building(self, graph, global_step, pairs).build(scope, examples, requeue)

    # Operations of a replica

    @property
    def _built_ops(self) -> _BuiltOps:
        if self._built is None:
            raise ValueError("apply_gradients() or minimize() comes first")
        return self._built

    @property
    def chief_init_op(self) -> Operation | None:
        """The operation that begins training at the present global step; the chief runs it after initialization.

        It drops all stored gradients. Its run fails with AbortedError if an unfinished run applied a part of a step:
        then variables must be restored first.
        """
        return self._built_ops.ops.open

    @property
    def local_step_init_op(self) -> Operation:
        """The operation that lets this replica begin, to run before its first step; waits until training is open."""
        return self._built_ops.ops.admit

    @property
    def ready_for_local_init_op(self) -> Tensor:
        """The names of the global variables without a value: none when the chief can open training."""
        return self._built_ops.ready

    @property
    def sync_op(self) -> Operation | None:
        """The operation that applies one decided step, if no other replica leads. A replica must run it repeatedly."""
        return self._built_ops.ops.advance

    @property
    def accepted(self) -> Tensor:
        """Whether the step accepted the gradient of this run, in a run of the train operation."""
        return self._built_ops.accepted

    @property
    def num_replicas(self) -> Tensor:
        """The number of replicas that have started and have neither left nor been lost."""
        return self._built_ops.there

    @property
    def next_step(self) -> Tensor:
        """The step that begins after a run of the train operation, in that run."""
        return self._built_ops.step

    async def dropped(self, session: Session, since: int = 0) -> list[Dropped]:
        """Return the drops of all replicas, oldest first, after the first `since`. The last 10,000 are kept."""
        asked = self.dropped_args(since)
        return self.dropped_of(await session.run(asked.fetches, asked.feeds))

    def dropped_args(self, since: int) -> SessionRunArgs:
        """Return the fetches that report drops."""
        return SessionRunArgs(self._built_ops.dropped, {self._built_ops.since: since})

    def dropped_of(self, found: Any) -> list[Dropped]:
        """Return the drops in the result of such a run."""
        return [Dropped(number, replica, step, examples, Reason(reason))
                for number, replica, step, examples, reason in found.tolist()]  # fmt: skip

    async def start(self, session: Session, coord: Coordinator, is_chief: bool = False) -> Participation:
        """Let the replica begin, and lead when its turn comes, by tasks of the coordinator.

        Waits until the chief has opened training. When the coordinator stops, the replica leaves.
        """
        part = Participation(self._built_ops.ops, session, coord)
        await part.begin(is_chief)
        return part

    def make_session_run_hook(
        self, is_chief: bool, num_tokens: int = -1, on_dropped: OnDropped | None = None
    ) -> ReplicasHook:
        """Return a hook by which the replica takes part in a monitored session.

        Args:
            is_chief: whether it opens training.
            num_tokens: for compatibility; has no effect.
            on_dropped: called with each dropped gradient of this replica; drops are logged in any case.
        """
        return ReplicasHook(self, is_chief, on_dropped)


class _Building:
    """The gradients of one call of `apply_gradients`."""

    def __init__(self, opt: SyncReplicasOptimizer, graph: Graph, global_step: Variable, pairs: list[Pair]) -> None:
        self._opt: Final = opt
        self._graph: Final = graph
        self._global_step: Final = global_step
        self._pairs: Final = pairs
        with graph.control_dependencies(None):
            with self._at_home() as container:
                self._quorum: Final = ops.replica_quorum(opt._total, opt._required, container, opt._name, name="quorum")
            counts: Counter[str] = Counter()
            self._shares: Final = [self._shares_of(gradient, variable, counts) for gradient, variable in pairs]

    @contextlib.contextmanager
    def _at_home(self) -> Iterator[str]:
        with beside(self._graph, self._global_step):
            yield self._global_step.op.attrs["container"]

    def _shares_of(self, gradient: Gradient, variable: Variable, counts: Counter[str]) -> Tensor:
        """Create the storage for gradients of this pair; several gradients of one variable have several."""
        made = gradients.replica_gradients if isinstance(gradient, Tensor) else gradients.replica_sparse_gradients
        container = variable.op.attrs["container"]
        name = variable.op.attrs["shared_name"] or variable.op.name
        counts[name] += 1
        name = name if counts[name] == 1 else f"{name}/{counts[name]}"
        with beside(self._graph, variable):
            return made(variable.dtype, variable.shape, container, f"{self._opt._name}/{name}", name="gradients")

    def build(self, scope: str, examples: TensorLike, requeue: Callable[[], Any] | None) -> Operation:
        """Build all operations of the replica."""
        graph, opt, me = self._graph, self._opt, self._opt.task_index
        count = cast(convert_to_tensor(examples), dtypes.int64)
        with self._at_home():
            ticket = ops.replica_begin(self._quorum, count, me, name="begin")
        stored = [self._store(ticket, shares, pair) for shares, pair in zip(self._shares, self._pairs, strict=True)]
        with self._at_home():
            with graph.control_dependencies(stored):
                announced = ops.replica_announce(self._quorum, ticket, name="announce")
            with graph.control_dependencies([announced]):
                step, accepted = ops.replica_settle(self._quorum, ticket, name="settle")
        with graph.control_dependencies([step]):
            seen = self._global_step.assign_add(0, read_value=False)  # so that reads built later see the step
        with graph.control_dependencies(None):
            opt._built = self._besides(step, accepted)
        left_out = kept_if(accepted, [gradient for gradient, _ in self._pairs])
        done = control.group(seen, *left_out, *_requeue_if_dropped(accepted, requeue), name=scope)
        graph.add_to_collection(GraphKeys.TRAIN_OP, done)
        return done

    def _store(self, ticket: Tensor, shares: Tensor, pair: Pair) -> Operation:
        gradient, variable = pair
        with beside(self._graph, variable):
            if isinstance(gradient, IndexedSlices):
                return gradients.replica_put_rows(shares, ticket, gradient.indices, gradient.values, name="store")
            return gradients.replica_put(shares, ticket, gradient, name="store")

    def _besides(self, step: Tensor, accepted: Tensor) -> _BuiltOps:
        me = self._opt.task_index
        advance = self._advance()
        with self._at_home():
            since, why = constant(0, dtypes.int64, name="since"), constant("", name="why")
            made = ReplicaOps(
                admit=ops.replica_admit(self._quorum, me, name="admit").op,
                present=ops.replica_present(self._quorum, me, name="present"),
                leave=ops.replica_leave(self._quorum, me, name="leave"),
                advance=advance,
                open=self._open(),
                fail=ops.replica_fail(self._quorum, why, me, name="fail"),
                why=why,
            )
            dropped = ops.replica_dropped(self._quorum, since, name="dropped")
            there = ops.replica_count(self._quorum, name="count")
            mark = constant(0, dtypes.int64, name="mark")
            hold, held = ops.replica_hold(self._quorum, mark), ops.replica_held(self._quorum, mark)
        self._graph.add_to_collection(GraphKeys.STEP_BOUNDARIES, StepBoundary(mark, hold, held))
        return _BuiltOps(made, report_uninitialized_variables(), accepted, step, dropped, since, there)

    def _open(self) -> Operation:
        resets = []
        for shares, (_, variable) in zip(self._shares, self._pairs, strict=True):
            with beside(self._graph, variable):
                resets.append(gradients.replica_reset(shares, name="reset"))
        with self._at_home(), self._graph.control_dependencies(resets):
            step = cast(self._global_step.value(), dtypes.int64)
            return ops.replica_open(self._quorum, step, name="open")

    def _advance(self) -> Operation:
        """Apply one step. The step is counted before the updates, so that a partly applied step is detected."""
        graph, opt = self._graph, self._opt
        with self._at_home():
            step, tickets = ops.replica_lead(self._quorum, opt.task_index, name="lead")
            with graph.control_dependencies([step]):
                present = cast(self._global_step.value(), dtypes.int64)
            confirmed = ops.replica_confirm(self._quorum, step, present, name="confirm")
        with graph.control_dependencies([confirmed]):
            counted = self._global_step.assign_add(1, read_value=False)
        means = [
            self._take(step, tickets, counted, shares, pair)
            for shares, pair in zip(self._shares, self._pairs, strict=True)
        ]
        applied = part_of_training(opt._opt.apply_gradients(means))
        with graph.control_dependencies([applied]):
            averaged = [] if opt._averages is None else [opt._averages.apply(opt._averaged)]
        with self._at_home(), graph.control_dependencies([applied, *averaged]):
            return ops.replica_finish(self._quorum, step, name="finish")

    def _take(self, step: Tensor, tickets: Tensor, counted: Operation, shares: Tensor, pair: Pair) -> Pair:
        gradient, variable = pair
        with beside(self._graph, variable), self._graph.control_dependencies([counted]):
            if isinstance(gradient, Tensor):
                return gradients.replica_take(shares, step, tickets, name="take"), variable
            indices, values = gradients.replica_take_rows(shares, step, tickets, name="take")
            return IndexedSlices(values, indices, gradient.dense_shape), variable


def _requeue_if_dropped(accepted: Tensor, requeue: Callable[[], Any] | None) -> list[Any]:
    if requeue is None:
        return []

    def again() -> Tensor:
        with graph_to_build_in(accepted.graph).control_dependencies([requeue()]):
            return constant(1)

    return [cond(accepted, lambda: constant(0), again)]
