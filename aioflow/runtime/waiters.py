"""Takes a snapshot of the operations that the running steps of a process compute and wait for.

A step records nothing for it. The snapshot reads the current operation and iteration of a compiled loop from its frame,
the waiters of a queue from the queue, and the operations that would wake a waiter from the programs of the running
steps.

The operations of a program that wake waiters: they send a value, release a lock, put into a queue or take from it.

A program is searched once, for all steps that run it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow.devices.device import HERE
from aioflow.graph.operation import describe_line
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.kernels.state.staging import AreaSpec
from aioflow.plan.frame_levels import role_of
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.program import Program, RunningUnit, Unit
from aioflow.rendezvous import Edge, Waiting, edge_of
from aioflow.runtime.session_state import Running, RunningProgram, SessionState
from aioflow.runtime.wait_graph import Promise, Waiter, WaitGraph, described, named
from aioflow.waiting.lines import Attempt, Waitable
from aioflow.waiting.mutex import Mutex, Ticket

ACQUIRE, KEEP, RELEASE = "acquire_variable_lock", "keep_variable_lock", "release_variable_lock"
TAKES: Final = frozenset(["queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "unstage", "stage_peek"])
PUTS: Final = frozenset(["queue_enqueue", "queue_enqueue_many", "queue_give_back", "queue_close", "stage"])


class Use(NamedTuple):
    """An operation that uses a queue or a staging area.

    Attributes:
        operation: the operation.
        unit: the unit it runs in.
        handle: the node that makes the handle; None if the operation chooses among several when it runs.
        kinds: the effects it may have: `put`, `take`.
    """

    operation: Node
    unit: Unit
    handle: Node | None
    kinds: Sequence[str]


class EventSources:
    """The operations of a program that wake waiters.

    Attributes:
        sends: the operations that send values to other devices, with their units.
        releases: the operations that release locks, with their units.
        uses: the operations that use queues and staging areas.
        given: the nodes whose values are the arguments in the blocks of loops and branches.
    """

    def __init__(self, program: Program) -> None:
        nodes = [(inner, unit) for unit in program.units for node in unit.nodes for inner in node.everything()]
        self.given: Final = {
            argument: node.inputs[place].node
            for node, _ in nodes for block in node.blocks for place, argument in block.arguments.items()
        }  # fmt: skip
        self.sends: Final = [(node, unit) for node, unit in nodes if node.definition.name == "send"]
        self.releases: Final = [(node, unit) for node, unit in nodes if node.definition.name == RELEASE]
        self.uses: Final = [
            Use(node, unit, handle_of(value, self.given), kinds)
            for node, unit in nodes if not (node.blocks or role_of(node) or node.definition.name == "send")
            for value in node.inputs if isinstance(value.spec, QueueSpec | AreaSpec)
            if (kinds := kinds_of(node))
        ]  # fmt: skip
        self._program = program
        self._before: dict[tuple[int, ...], dict[Unit, list[int]]] = {}

    def before(self, begun: Sequence[Unit]) -> dict[Unit, list[int]]:
        """For each unit the places of the begun units before it: in its iteration, else in an earlier one."""
        key = tuple([unit.index for unit in begun])
        found = self._before.get(key)
        if found is None:
            near, far = self._after(begun, around=False), self._after(begun, around=True)
            found = self._before[key] = {unit: near.get(unit) or places for unit, places in far.items()}
        return found

    def _after(self, begun: Iterable[Unit], around: bool) -> dict[Unit, list[int]]:
        """For each unit the places of the begun units before it; with `around`, also in earlier iterations."""
        found: dict[Unit, list[int]] = {}
        for place, unit in enumerate(begun):
            seen, left = {unit}, [unit]
            while left:
                each = left.pop()
                found.setdefault(each, []).append(place)
                if around or each.role != "next_iteration":
                    following = set(self._following(each)) - seen
                    seen |= following
                    left += following
        return found

    def _following(self, unit: Unit) -> list[Unit]:
        units = self._program.levels[unit.route.target].units
        return [units[place] for place in (*unit.successors, *[arrival.place for arrival in unit.route.arrivals])]


def kinds_of(node: Node) -> list[str]:
    """The effects that an operation may have on a queue: both, unless it is known to have only one."""
    name = node.definition.name
    return [kind for kind, others in (("put", TAKES), ("take", PUTS)) if name not in others]


def handle_of(value: Value, given: Mapping[Node, Node]) -> Node | None:
    """The node that makes a handle, found through loops and branches; None if the run chooses the handle.

    `given` are the nodes that stand behind the arguments of blocks.
    """
    node, seen = value.node, set()
    while node in given or (role_of(node) is not None and node not in seen):
        seen.add(node)
        node = given[node] if node in given else node.inputs[0].node
    return node if node.definition.handle else None


_FEW: Final = 16
"""With more running steps than this, `pending_operations` examines only the step itself."""
_Channel = tuple[str, str, str]
"""An edge between devices: its name, its source and its target."""


class Holder(NamedTuple):
    """The operation that holds a lock, the key of its step, and the seconds for which it has held the lock."""

    key: str
    operation: str
    op_type: str
    line: str
    seconds: float


class ActiveOperation(NamedTuple):
    """An operation under way.

    Attributes:
        state: the session of its step.
        step: its step.
        execution: the execution that runs it; None for the only unit of a step.
        begun: the unit it belongs to.
        waiter: its waiter in the wait-for graph.
        seconds: the time for which it has computed or waited.
        holder: the holder of the lock that it waits for; None if it waits for no lock.
    """

    state: SessionState
    step: Running
    execution: RunningProgram | None
    begun: RunningUnit
    waiter: Waiter
    seconds: float
    holder: Holder | None


class Snapshot:
    """A snapshot of the steps of a session and of the sessions that may share a container with it.

    Attributes:
        under_way: their operations under way, the oldest first.
        graph: the wait-for graph; its waiters are those operations.
        live: the attempts of the application that wait.
    """

    def __init__(self, state: SessionState, cancelled: Running | None = None) -> None:
        """Take the snapshot.

        Args:
            state: the session.
            cancelled: a cancelled step, whose attempts have already left their queues.
        """
        sessions = state.neighbours
        self._cancelled: Final = cancelled
        self._local_of: Final = {step: each for each in sessions for step in list(each.steps)}
        things = list({id(thing): thing for each in sessions for thing in each.resources.alive()}.values())
        self._attempts: Final = _attempts(thing for thing in things if isinstance(thing, Waitable))
        self._tickets: Final = _tickets(thing for thing in things if isinstance(thing, Mutex))
        self._receives: Final = {step: _receives(step) for step in self._local_of if step.executions}
        self._served: dict[str, Sequence[str]] = {}
        self._last_sent: Final[dict[str, tuple[int, ...]]] = {}
        self._sources: Final[dict[Program, EventSources]] = {}
        self._live: Final[dict[tuple[SessionState, Node], list[Waitable]]] = {}
        self.live: Final = list(self._attempts.get(id(None), ()))
        begun = [each for step in self._local_of for each in _begun(step)]
        self.under_way: Final = [self._under(*each) for each in sorted(begun, key=lambda each: each[2].since)]
        promises = self._promises()
        self.graph: Final = WaitGraph(
            [under.waiter for under in self.under_way], promises, self._served, self._last_sent
        )

    def key(self, step: Running) -> str:
        """The key that identifies the step among all sessions, the same on all tasks of a cluster."""
        state = self._local_of[step]
        return key_of(step.id, str(id(state)) if state.task == HERE else "")

    def steps_of(self, state: SessionState) -> dict[str, int]:
        """The numbers of the steps of a session, by their keys."""
        return {self.key(step): step.id for step, each in self._local_of.items() if each is state}

    def seen(self, state: SessionState) -> list[ActiveOperation]:
        """The operations of a session that a report shows: all but those that keep a lock until its release."""
        return [under for under in self.under_way if under.state is state and under.waiter.op_type != KEEP]

    # Waiters

    def _under(self, step: Running, execution: RunningProgram | None, begun: RunningUnit) -> ActiveOperation:
        node, iteration = begun.place
        seconds, what, needs, holder = step.clock() - begun.since, "", "", None
        awaited: tuple[int, ...] = ()
        if attempts := self._attempts.get(id(node)):
            thing, attempt = attempts.popleft()
            what, seconds = thing.action(attempt), waited(attempt)
            needs = self._served_by(step, node, thing, attempt)
        elif node.definition.name == "recv" and (keys := self._receives[step].get(_channel(node.attrs))):
            what, seconds = _receiving(keys[0])
            awaited = keys.popleft().key.iteration
            is_credit = bool(node.attrs["window"])  # it needs values of earlier iterations, so it is in no cycle
            needs = "" if is_credit else self._sent(step, node)
        elif node.definition.name == ACQUIRE and (tickets := self._tickets.get(id(node))):
            what, needs, holder = self._locked(tickets.popleft())
        elif node.definition.name == KEEP:
            what, needs = "see its lock released", self._released(step, node.inputs[0])
        elif step is self._cancelled:
            needs = self._needed(step, node)
        line = describe_line(node.operation)
        waiter = Waiter(
            self.key(step), node.name, node.definition.name, line, begun.device, what, needs,
            _computes(begun.unit, node), iteration, awaited,
        )  # fmt: skip
        return ActiveOperation(self._local_of[step], step, execution, begun, waiter, seconds, holder)

    def _served_by(self, step: Running, node: Node, thing: Waitable, attempt: Attempt) -> str:
        """The event that an attempt waits for; empty if the operations that cause it are unknown."""
        served = thing.servers_of(attempt)
        if served is None:
            return ""
        event = self._used("put" if node.definition.name in TAKES else "take", step, thing)
        self._served[event] = list(served)
        return event

    def _needed(self, step: Running, node: Node) -> str:
        """The event that a cancelled operation waited for. It is marked as served, so it is in no cycle."""
        name = node.definition.name
        given = {
            node: source for each in step.executions for node, source in self._events_of(each.program).given.items()
        }
        handles = [handle_of(value, given) for value in node.inputs[:1]] if name in TAKES | PUTS else []
        used = [thing for handle in handles for thing in self._used_by(step, handle)]
        events = [self._used("put" if name in TAKES else "take", step, thing) for thing in used]
        events += [self._sent(step, node)] if name == "recv" else []
        self._served |= dict.fromkeys(events, ("",))
        return events[0] if events else ""

    def _locked(self, waiting: tuple[Mutex, Ticket]) -> tuple[str, str, Holder | None]:
        mutex, _ = waiting
        held, what = mutex.holder, f"enter {mutex!r}"
        if not isinstance(held, Ticket) or held.who is None or held.step not in self._local_of:
            return what, "", None
        node: Node = held.who
        holder = Holder(
            self.key(held.step), node.name, node.definition.name, describe_line(node.operation), _now() - held.since
        )
        return what, self._released(held.step, node.inputs[1]), holder

    # Events and promises

    def _used(self, kind: str, step: Running, thing: Waitable) -> str:
        return f"{kind} {self._local_of[step].task} {id(thing)}"

    def _released(self, step: Running, ticket: Value) -> str:
        return f"release {self.key(step)} {ticket.node.name}"

    def _sent(self, step: Running, node: Node) -> str:
        return f"send {self.key(step)} {' '.join(_channel(node.attrs))}"

    def _promises(self) -> list[Promise]:
        """The promises of operations that have not run yet, for events that a waiter here or on another task needs."""
        needed = {under.waiter.needs for under in self.under_way} - {""}
        places: dict[RunningProgram | None, list[int]] = {}
        for place, under in enumerate(self.under_way):
            places.setdefault(under.execution, []).append(place)
        return [
            promise
            for step, state in self._local_of.items() if needed or state.task != HERE
            for execution in step.executions
            for promise in self._promised(step, execution, places.get(execution, []), needed)
        ]  # fmt: skip

    def _events_of(self, program: Program) -> EventSources:
        found = self._sources.get(program)
        if found is None:
            found = self._sources[program] = EventSources(program)
        return found

    def _promised(
        self, step: Running, execution: RunningProgram, places: Sequence[int], needed: set[str]
    ) -> Iterator[Promise]:
        program = execution.program
        sources = self._events_of(program)
        wanted = list(self._outgoing_events(step, sources, needed))
        if not wanted:
            return
        before = sources.before([self.under_way[place].begun.unit for place in places])
        for event, node, unit in wanted:
            made = Promise(event, self.key(step), node.name, ())
            waiters = tuple([places[number] for number in before.get(unit, ())])
            if execution.is_ready:
                yield made  # some unit is ready: the operation may run next
            elif waiters and len(program.levels) == 1:
                yield made._replace(waiters=waiters)
            else:  # it may follow them in different iterations: the end of any of them may be enough
                yield from [made._replace(waiters=(waiter,)) for waiter in waiters]

    def _outgoing_events(
        self, step: Running, sources: EventSources, needed: set[str]
    ) -> Iterator[tuple[str, Node, Unit]]:
        """The events of the step's operations that some waiter needs; on a task of a cluster, also all its sends."""
        everything = self._local_of[step].task != HERE
        last_sent = step.rendezvous.last_sent if everything else {}
        for node, unit in sources.sends:
            if (event := self._sent(step, node)) in needed or everything:
                yield event, node, unit
            if last_sent and (iteration := last_sent.get(_edge(node.attrs))) is not None:
                self._last_sent[event] = iteration
        for node, unit in sources.releases:
            if (event := self._released(step, node.inputs[1])) in needed:
                yield event, node, unit
        for use in sources.uses:
            for thing in self._used_by(step, use.handle):
                for kind in use.kinds:
                    if (event := self._used(kind, step, thing)) in needed:
                        yield event, use.operation, use.unit

    def _used_by(self, step: Running, handle: Node | None) -> Sequence[Waitable]:
        """The live objects behind a handle.

        An operation that chooses its handle in the run may serve any waiter. So then all known events count as served
        by others, and are in no cycle.
        """
        if handle is None:
            self._served = dict.fromkeys(self._served, ("",))
            return ()
        state = self._local_of[step]
        found = self._live.get((state, handle))
        if found is None:
            found = self._live[state, handle] = _live(state, handle)
        return found


# Reading sessions


def _begun(step: Running) -> Iterator[tuple[Running, RunningProgram | None, RunningUnit]]:
    if step.executions:
        return ((step, execution, begun) for execution in step.executions for begun in execution.under_way())
    return ((step, None, begun) for begun in step.under_way())


def _computes(unit: Unit, node: Node) -> bool:
    """Whether a node under way computes. A unit that sends and receives may be at a node that does not wait."""
    return not unit.waits or (unit.kernel is None and not node.waits)


def _edge(attrs: Mapping[str, Any]) -> Edge:
    """The edge of a node that sends."""
    return edge_of(attrs["edge"], attrs["source"], attrs["incarnation"], attrs["target"])


def _live(state: SessionState, handle: Node) -> list[Waitable]:
    name = handle.attrs["shared_name"] or handle.name
    objects = state.resources.container(handle.attrs["container"]).objects()
    return [thing for (_, known), thing in objects.items() if known == name and isinstance(thing, Waitable)]


def _attempts(things: Iterable[Waitable]) -> dict[int, deque[tuple[Waitable, Attempt]]]:
    """The waiting attempts by the id of their operation; the oldest first."""
    attempts = [(thing, attempt) for thing in things for attempt in thing.waiting]
    found: dict[int, deque[tuple[Waitable, Attempt]]] = {}
    for thing, attempt in sorted(attempts, key=lambda each: each[1].since):
        found.setdefault(id(attempt.who), deque()).append((thing, attempt))
    return found


def _tickets(mutexes: Iterable[Mutex]) -> dict[int, deque[tuple[Mutex, Ticket]]]:
    """The waiting tickets of locks, by the id of their operation."""
    found: dict[int, deque[tuple[Mutex, Ticket]]] = {}
    for mutex in mutexes:
        for ticket in mutex.waiting:
            if isinstance(ticket, Ticket):
                found.setdefault(id(ticket.who), deque()).append((mutex, ticket))
    return found


def _receives(step: Running) -> dict[_Channel, deque[Waiting]]:
    """The values from other devices for which a step waits, by edge."""
    found: dict[_Channel, deque[Waiting]] = {}
    for waiting in step.rendezvous.waiting:
        edge = waiting.key.edge
        found.setdefault((edge.name, edge.source, edge.target), deque()).append(waiting)
    return found


def _channel(of: Mapping[str, Any]) -> _Channel:
    return of["edge"], of["source"], of["target"]


def _receiving(waiting: Waiting) -> tuple[str, float]:
    edge, iteration = waiting.key
    place = f" in iteration {':'.join(map(str, iteration))}" * bool(iteration)
    return f"receive {edge.name!r}{place} from {edge.source} on {edge.target}", _now() - waiting.since


def waited(attempt: Attempt) -> float:
    """The seconds for which an attempt has waited, on the clock of its own loop."""
    return (_now() if attempt.future is None else attempt.future.get_loop().time()) - attempt.since


def _now() -> float:
    return asyncio.get_running_loop().time()


def key_of(step: int, session: str = "") -> str:
    """The key of a step. On the tasks of a cluster the number is enough."""
    return f"{session}:{step}"


# Texts


def pending_operations(state: SessionState, step: Running) -> str:
    """The operations that a step computes and waits for, the cause of the delay first; empty if there are none.

    Other steps are examined only if they are few, because many may be cancelled together.
    """
    running = sum([len(each.steps) for each in state.neighbours])
    if running > _FEW or (running == 1 and not step.executions):
        return _text_of([(not begun.unit.waits, _at(begun)) for begun in sorted(step.under_way(), key=_receives_last)])
    snapshot = Snapshot(state, step)
    key, steps = snapshot.key(step), snapshot.steps_of(state)
    cycles = [cycle for cycle in snapshot.graph.cycles(steps) if any(edge.step == step.id for edge in cycle.edges)]
    under = [
        (waiter.computes, f"{waiter}{'' if waiter.key == key else ' of ' + named(steps.get(waiter.key, 0))}")
        for waiter in snapshot.graph.culprits(key) if waiter.op_type != KEEP
    ]  # fmt: skip
    return "\n".join([_text_of(under), *map(str, cycles)])


def _receives_last(begun: RunningUnit) -> bool:
    return begun.unit.nodes[0].definition.name == "recv"


def _at(begun: RunningUnit) -> str:
    node, iteration = begun.place
    return described(node.name, node.definition.name, iteration, begun.device)


def _text_of(under: Sequence[tuple[bool, str]]) -> str:
    """The text for operations, each with whether it computes."""
    computing = ", ".join([text for computes, text in under if computes])
    waiting = ", ".join([text for computes, text in under if not computes])
    parts = [f"computing {computing}"] * bool(computing) + [f"waiting for {waiting}"] * bool(waiting)
    return f"the run was {' and '.join(parts)}" if parts else ""
