"""Asynchronous training of several replicas, with a bound on how stale gradients may be."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aioflow.graph.building import graph_to_build_in
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.state import replica_turns as turns
from aioflow.kernels.state import replicas as ops
from aioflow.library import control
from aioflow.library.variables import Variable
from aioflow.replication.quorum import Dropped
from aioflow.session import Session
from aioflow.train.coordinator import Coordinator
from aioflow.train.optimizer import Gradient, Optimizer, WrappingOptimizer, part_of_training, with_gradients
from aioflow.train.replicas import Participation, ReplicaOps, ReplicasHook, beside
from aioflow.train.session_run_hook import SessionRunArgs

Pair = tuple[Gradient, Variable]


class _BuiltOps(NamedTuple):
    """The operations that `apply_gradients` has built."""

    ops: ReplicaOps
    staleness: Tensor
    seen: Tensor
    there: Tensor


class AsyncReplicasOptimizer(WrappingOptimizer):
    """Applies each replica's gradients as soon as they are computed, unless they are too stale.

        opt = af.train.AsyncReplicasOptimizer(af.train.GradientDescentOptimizer(0.1), max_staleness=8, task_index=task)
        train = opt.minimize(loss, global_step=step)

    The staleness of a gradient is the number of updates of all replicas between the reading of the variables and its
    own update [P16 section 4.4]; the measured staleness is never less than that. If a replica is so far ahead that the
    gradient of another could become too stale, its train operation waits until that gradient is applied or its replica
    is lost. Each replica has its own graph, built alike. It runs one step at a time, in a session in which it takes
    part by `start` or `make_session_run_hook`: a second run at the same time raises FailedPreconditionError, and so
    does one after a failed run and before `local_step_init_op`.

    Args:
        opt: the optimizer that applies the gradients.
        max_staleness: the largest staleness; with None no replica waits, and staleness is only measured.
        use_locking: for compatibility: every update is atomic.
        name: the name of the objects that replicas share.
        task_index: the number of this replica, from 0 on.

    Examples:
        >>> v, step = af.Variable(1.0), af.train.create_global_step()
        >>> descent = af.train.GradientDescentOptimizer(0.1)
        >>> optimizer = af.train.AsyncReplicasOptimizer(descent, max_staleness=2)
        >>> train = optimizer.minimize(v * v, global_step=step)
        >>> hook = optimizer.make_session_run_hook(is_chief=True)
        >>> async with af.train.MonitoredSession(hooks=[hook]) as monitored:
        ...     _ = await monitored.run(train)
        ...     print(await monitored.run(v))
        0.8
    """

    def __init__(
        self,
        opt: Optimizer,
        max_staleness: int | None = None,
        use_locking: bool = False,
        name: str = "async_replicas",
        task_index: int = 0,
    ) -> None:
        super().__init__(opt, use_locking, name)
        if max_staleness is not None and max_staleness < 0:
            raise ValueError(f"a staleness is 0 or more, not {max_staleness}")
        ops.check_replica(task_index)
        self._bound: Final = turns.UNBOUNDED if max_staleness is None else max_staleness
        self.task_index: Final = task_index
        self._built: _BuiltOps | None = None

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """Return the train operation of this replica, which applies its gradients when its turn comes.

        Args:
            grads_and_vars: (gradient, variable) pairs; pairs without a gradient are ignored.
            global_step: counts the updates of all replicas. The shared objects are on its device.
            name: the name of the operation.

        Raises:
            ValueError: there is no global step or no gradient, or gradients were applied before.
        """
        if global_step is None:
            raise ValueError("replicas need the global_step that counts their updates")
        if self._built is not None:
            raise ValueError(f"{self._name!r} has applied gradients: one optimizer is of one replica")
        pairs = with_gradients(grads_and_vars)
        graph = graph_to_build_in(global_step.graph)
        with graph.transaction(), graph.as_default(), graph.name_scope(name or self._name) as scope:
            graph.on_failure(lambda: setattr(self, "_built", None))
            return self._build_turn(graph, scope, pairs, global_step)

    def _build_turn(self, graph: Graph, scope: str, pairs: list[Pair], global_step: Variable) -> Operation:
        me, container = self.task_index, global_step.op.attrs["container"]
        with beside(graph, global_step), graph.control_dependencies(None):
            shared = turns.replica_turns(self._bound, container, self._name, name="turns")
            admit = turns.replica_read_turn(shared, me, name="admit").op
            present = ops.replica_present(shared, me, name="present")
            leave = ops.replica_leave(shared, me, name="leave")
            there = ops.replica_count(shared, name="count")
            ticket = turns.replica_begin_turn(shared, me, name="begin")
        with beside(graph, global_step), graph.control_dependencies([_wait_tensor(gradient) for gradient, _ in pairs]):
            turn = turns.replica_apply_turn(shared, ticket, me, name="turn")
        applied = part_of_training(self._opt.apply_gradients([_after(turn, pair) for pair in pairs], global_step))
        with beside(graph, global_step):
            with graph.control_dependencies([applied]):
                staleness = turns.replica_finish_turn(shared, turn, me, name="finish")
            with graph.control_dependencies([staleness]):
                seen = turns.replica_read_turn(shared, me, name="read")
        self._built = _BuiltOps(ReplicaOps(admit, present, leave), staleness, seen, there)
        done = control.group(seen.op, name=scope)
        graph.add_to_collection(GraphKeys.TRAIN_OP, done)
        return done

    # Operations of a replica

    @property
    def _built_ops(self) -> _BuiltOps:
        if self._built is None:
            raise ValueError("apply_gradients() or minimize() comes first")
        return self._built

    @property
    def local_step_init_op(self) -> Operation:
        """The operation that lets this replica begin, to run before its first step and after a failed one."""
        return self._built_ops.ops.admit

    @property
    def staleness(self) -> Tensor:
        """An upper bound of the gradient's staleness, in a run of the train operation."""
        return self._built_ops.staleness

    @property
    def num_replicas(self) -> Tensor:
        """The number of replicas that have started and have neither left nor been lost."""
        return self._built_ops.there

    @property
    def next_step(self) -> Tensor:
        """The number of updates that the next run of the replica certainly sees, in a run of the train operation."""
        return self._built_ops.seen

    def dropped_args(self, since: int) -> SessionRunArgs | None:
        """Return empty fetches: no gradient is ever dropped."""
        return None

    def dropped_of(self, found: Any) -> list[Dropped]:
        """Return no drops: no gradient is ever dropped."""
        return []

    async def start(self, session: Session, coord: Coordinator, is_chief: bool = False) -> Participation:
        """Let the replica begin. It leaves when the coordinator stops."""
        part = Participation(self._built_ops.ops, session, coord)
        await part.begin(is_chief)
        return part

    def make_session_run_hook(self, is_chief: bool = False, num_tokens: int = -1) -> ReplicasHook:
        """Return a hook by which the replica takes part in a monitored session."""
        return ReplicasHook(self, is_chief)


def _wait_tensor(gradient: Gradient) -> Tensor:
    return gradient if isinstance(gradient, Tensor) else gradient.values


def _after(turn: Tensor, pair: Pair) -> Pair:
    """Return the gradient on the device of its variable, once its replica's turn has come."""
    gradient, variable = pair
    graph = turn.graph
    with graph.colocate_with(variable.handle, ignore_existing=True), graph.control_dependencies([turn]):
        if isinstance(gradient, Tensor):
            return identity(gradient), variable
        return IndexedSlices(identity(gradient.values), gradient.indices, gradient.dense_shape), variable
