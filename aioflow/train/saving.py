"""The graph of a Saver: operations that take the values of variables, write, read and restore them.

[P15 section 3.3] Each task with variables has a node that writes a shard; each variable has a node that reads it and
one that assigns it. Values never travel to another task, only the record of the write does. Nothing is assigned before
everything is read, and nothing is read before the checkpoint is known to hold exactly the wanted tensors.

Checkpoints that are written while training goes on, and reports of failing writes.
"""

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity, no_op, placeholder
from aioflow.kernels.state import checkpoint as files
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import TensorShape
from aioflow.tensors.recursion import safe_repr
from aioflow.train.savable import Entry, Savable, Saved, SavedCounts, run_state_of


class Feeds(NamedTuple):
    """The placeholders of a Saver's steps.

    Attributes:
        path: the path of the checkpoint.
        token: the token of the draft; for `tidy`, the prefix of all tokens of this process.
        facts: further facts for the manifest, as JSON.
        plain: whether the path leads to plain safetensors files.
        renamed: their tensors by other names, as in `check_checkpoint`; empty for all by their own.
        chosen: the names of the tensors to restore; empty for all.
        go: fed when all is read; the assignments wait for it.
        old: the paths of checkpoints to delete.
        kept: the paths of checkpoints to keep.
        live: the tokens of drafts that are being written.
        damaged: the paths of checkpoints that could not be restored.
    """

    path: Tensor
    token: Tensor
    facts: Tensor
    plain: Tensor
    renamed: Tensor
    chosen: Tensor
    go: Tensor
    old: Tensor
    kept: Tensor
    live: Tensor
    damaged: Tensor


class RestoreOps(NamedTuple):
    """The operations that restore some values of a checkpoint.

    Attributes:
        names: names of the tensors to read.
        read: done when they are read.
        given: done when the variables have their saved values again.
    """

    names: Sequence[str]
    read: Tensor
    given: Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Nodes:
    """The operations that a Saver runs.

    Attributes:
        feeds: their placeholders.
        taken: done when all values are taken; None if each is taken when it is written.
        saved: the path, available when the checkpoint is complete.
        discard: deletes a draft.
        tidy: deletes old checkpoints, and drafts that were given up.
        names: the names of the tensors in plain safetensors files.
        latest: the path of the newest undamaged checkpoint in the folder that is fed as path; empty if there is none.
        every: restores everything.
        each: restores one variable, by the names of the variables' operations.
    """

    feeds: Feeds
    taken: Tensor | None
    saved: Tensor
    discard: Operation
    tidy: Operation
    names: Tensor
    latest: Tensor
    every: RestoreOps
    each: Mapping[str, RestoreOps]


class Group(NamedTuple):
    """The content of one shard: the variables of a task, and the device that writes and reads them."""

    device: str
    members: Sequence[Savable]


def build(
    graph: Graph, saved: Sequence[Savable], name: str, *, sharded: bool, consistent: bool, extra: bool, reshape: bool
) -> Nodes:
    """Build the nodes, below a name scope.

    Args:
        graph: the graph.
        saved: the objects to save and restore.
        name: the name scope.
        sharded: whether each task writes its own shard.
        consistent: whether all values are taken at one moment.
        extra: whether a checkpoint to restore may hold further tensors.
        reshape: whether to restore values into variables of other shapes.
    """
    groups = grouped(saved, sharded)
    around = graph.control_dependencies(None), graph.device(None), graph.name_scope(name)
    with graph.transaction(), graph.as_default(), around[0], around[1], around[2]:
        feeds = _feeds()
        values, taken = _cut(graph, groups, feeds) if consistent else (_read(graph, groups), None)
        saved_path = _written(graph, groups, values, feeds)
        kept = _build_cleanup(graph, groups[0].device, feeds)
        return Nodes(feeds, taken, saved_path, *kept, *_build_restore(graph, groups, feeds, extra, reshape))


def _feeds() -> Feeds:
    path, token, facts, go = [placeholder(dtypes.string, [], name) for name in ("path", "token", "facts", "go")]
    texts = ("renamed", "chosen", "old", "kept", "live", "damaged")
    renamed, chosen, *lists = [placeholder(dtypes.string, [None], name) for name in texts]
    return Feeds(path, token, facts, placeholder(dtypes.bool_, [], "plain"), renamed, chosen, go, *lists)


# Devices


def grouped(saved: Sequence[Savable], sharded: bool) -> list[Group]:
    """Return the objects to save, by the tasks of their variables, in the order of the task names.

    A shard cannot have two parts of one tensor, so a task with several parts writes several shards.
    """
    found: dict[tuple[str, int], list[Savable]] = {}
    seen = Counter[tuple[str, str]]()
    for each in saved:
        device = file_device(each.home) if sharded else ""
        key = device, each.entries[0].name
        found.setdefault((device, seen[key]), []).append(each)
        seen[key] += 1
    return [Group(device, found[device, turn]) for device, turn in sorted(found)]


def home_of(operation: Operation) -> DeviceSpec:
    """Return the device that the operation, and all others that share its device, ask for, as far as they do."""
    found, names, seen = DeviceSpec(), [operation.name], set[str]()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            each = operation.graph.get_operation_by_name(name)
            found = DeviceSpec.from_string(each.device).make_merged_spec(found)
            names += each.colocation
    return found


def file_device(operation: Operation) -> str:
    """Return the device that reads and writes files on the task of that operation; empty without a request."""
    spec = home_of(operation)
    if spec == DeviceSpec():
        return ""
    return dataclasses.replace(spec, device_type="CPU", device_index=0).to_string()


def run_state(graph: Graph, saved: Sequence[Saved]) -> list[Savable]:
    """Return the queues and readers of the graph, and the counts of random operations on each requested task."""
    found = list(run_state_of(graph))
    asking = [
        *[each.home for each in [*saved, *found]],
        *[o for o in graph.get_operations() if o.definition.counted],
    ]
    homes = {file_device(operation): operation for operation in reversed(asking)}
    return [*found, *[SavedCounts(operation, device) for device, operation in sorted(homes.items())]]


@contextmanager
def _beside(graph: Graph, saved: Savable, after: Iterable[Operation] = ()) -> Iterator[None]:
    with graph.colocate_with(saved.home, ignore_existing=True), graph.control_dependencies(list(after)):
        yield


@contextmanager
def _at(graph: Graph, device: str, after: Iterable[Operation] = ()) -> Iterator[None]:
    with graph.device(device or None), graph.control_dependencies(list(after)):
        yield


def _join(graph: Graph, groups: Sequence[Group], work: Sequence[Sequence[Operation]]) -> Operation:
    """Return an operation that is done when all groups are, with few control edges between tasks."""
    done = []
    for group, operations in zip(groups, work, strict=True):
        with _at(graph, group.device, operations):
            done.append(no_op())
    with _at(graph, groups[0].device, done):
        return no_op()


def _meeting(graph: Graph, groups: Sequence[Group], work: Sequence[Sequence[Operation]]) -> list[Operation]:
    """Return for each group an operation that is done when the whole group is."""
    all_done, gates = _join(graph, groups, work), []
    for group in groups:
        with _at(graph, group.device, [all_done]):
            gates.append(no_op())
    return gates


# Saving


def _read(graph: Graph, groups: Sequence[Group]) -> list[list[Tensor]]:
    """Return the values, each read when it is written."""
    return [[value for saved in group.members for value in _take(graph, saved, cut=False)] for group in groups]


def _take(graph: Graph, saved: Savable, cut: bool, after: Sequence[Operation] = ()) -> Sequence[Tensor]:
    with _beside(graph, saved, after):
        return saved.take(cut)


def _cut(graph: Graph, groups: Sequence[Group], feeds: Feeds) -> tuple[list[list[Tensor]], Tensor]:
    """Return the values of a task at one moment, and an operation that is done when they are taken."""
    marks: list[list[Operation]] = [[] for _ in groups]
    for group, mine in zip(groups, marks, strict=True):
        for saved in group.members:
            with _beside(graph, saved):
                mine.append(saved.mark())
    values = [
        [value for saved in group.members for value in _take(graph, saved, True, [gate])]
        for group, gate in zip(groups, _meeting(graph, groups, marks), strict=True)
    ]
    gates = _meeting(graph, groups, [[value.op for value in mine] for mine in values])
    with _at(graph, groups[0].device, gates[:1]):
        return values, identity(feeds.path, name="taken")


def _written(graph: Graph, groups: Sequence[Group], values: Sequence[Sequence[Tensor]], feeds: Feeds) -> Tensor:
    """Return the path, available when all is written and the checkpoint is complete."""
    records = []
    for number, (group, mine) in enumerate(zip(groups, values, strict=True)):
        entries = [entry for saved in group.members for entry in saved.entries]
        names, parts = [entry.name for entry in entries], [entry.part for entry in entries]
        with _at(graph, group.device):
            records.append(files.save_shard(feeds.path, feeds.token, mine, names, parts, number, len(groups)))
    with _at(graph, groups[0].device):
        return files.commit_checkpoint(feeds.path, feeds.token, feeds.facts, records, name="saved")


def _build_cleanup(graph: Graph, device: str, feeds: Feeds) -> tuple[Operation, Operation, Tensor, Tensor]:
    """Build the operations that delete and list checkpoints and their tensors."""
    with _at(graph, device):
        discard = files.discard_checkpoint(feeds.path, feeds.token, name="discard")
        tidy = files.tidy_checkpoint(feeds.path, feeds.token, feeds.old, feeds.kept, feeds.live, name="tidy")
        names = files.stored_names(feeds.path, name="names")
        return discard, tidy, names, files.latest_checkpoint(feeds.path, feeds.damaged, name="latest")


# Restoring


def _build_restore(
    graph: Graph, groups: Sequence[Group], feeds: Feeds, extra: bool, reshape: bool
) -> tuple[RestoreOps, dict[str, RestoreOps]]:
    """Return the operations that restore all values, and those that restore one variable."""
    with _at(graph, groups[0].device):
        check = _build_check(groups, feeds, extra, reshape)
    found = [[_giving(graph, group, saved, check, feeds, reshape) for saved in group.members] for group in groups]
    all_read = _join(graph, groups, [[giving.read.op for giving in mine] for mine in found])
    all_given = _join(graph, groups, [[giving.given.op for giving in mine] for mine in found])
    with _at(graph, groups[0].device, [all_read]):
        read = identity(feeds.path, name="read")
    with _at(graph, groups[0].device, [all_given]):
        every = RestoreOps((), read, identity(feeds.go, name="restored"))
    members = [saved for group in groups for saved in group.members]
    pairs = zip(members, [giving for mine in found for giving in mine], strict=True)
    return every, {saved.home.name: giving for saved, giving in pairs if isinstance(saved, Saved)}


def _giving(graph: Graph, group: Group, saved: Savable, check: Operation, feeds: Feeds, reshape: bool) -> RestoreOps:
    """Return the operations that restore one value, in a run of two calls: one reads, one assigns."""
    with _at(graph, group.device, [check]):
        values = [_value(entry, feeds, reshape) for entry in saved.entries]
    with _at(graph, group.device, [value.op for value in values]):
        read, gate = identity(feeds.path), identity(feeds.go)
    with _beside(graph, saved, [gate.op]):
        back = saved.give_back(values)
    with _at(graph, group.device, [back]):
        return RestoreOps([entry.name for entry in saved.entries], read, identity(feeds.go))


def _build_check(groups: Sequence[Group], feeds: Feeds, extra: bool, reshape: bool) -> Operation:
    entries = [entry for group in groups for saved in group.members for entry in saved.entries]
    wanted = {entry.name: entry for entry in entries}
    shapes = [TensorShape(entry.part[0]) if entry.part else entry.shape for entry in wanted.values()]
    types = [entry.dtype for entry in wanted.values()]
    reshaped = [entry.name for entry in wanted.values() if reshape and not entry.part]
    return files.check_checkpoint(
        feeds.path, feeds.plain, feeds.renamed, feeds.chosen, list(wanted), types, shapes, extra, reshaped, name="check"
    )


def _value(entry: Entry, feeds: Feeds, reshape: bool) -> Tensor:
    source = feeds.path, feeds.plain, feeds.renamed
    return files.restore_tensor(*source, entry.name, entry.dtype, entry.shape, entry.part, reshape)


_log: Final = logging.getLogger("aioflow.train")

OnFailure = Callable[[str, BaseException], object]
"""Called with a checkpoint's path and the error of its write."""


class Writing:
    """A checkpoint that a task of its Saver writes. Awaiting it returns the path, or raises the error of the write.

    Cancelling a task that awaits it does not end the write; `cancel` does.

    Attributes:
        path: the path of the checkpoint.

    Examples:
        >>> v = af.Variable(1.0)
        >>> saver = af.train.Saver()
        >>> await session.run(v.initializer)
        >>> writing = await saver.save_async(session, "checkpoints/model")
        >>> await writing
        'checkpoints/model'
    """

    def __init__(self, path: str, work: Coroutine[Any, Any, str]) -> None:
        self.path: Final = path
        self._awaited = False
        self._heard = False
        self._task: Final = asyncio.get_running_loop().create_task(work, name=f"writing {path!r}")

    def done(self) -> bool:
        """Whether the write has ended."""
        return self._task.done()

    def __await__(self) -> Generator[Any, None, str]:
        self._awaited = True
        yield from asyncio.wait([self._task]).__await__()
        self._heard = True
        return self._task.result()

    async def cancel(self) -> None:
        """Give up the write. No checkpoint exists then, but perhaps a draft, which a later save removes."""
        self._heard = True
        await asyncio.sleep(0)  # a task that has not begun would not clean up
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def unheard(self) -> BaseException | None:
        """The error of the write, unless a task that awaited it has got it."""
        return None if self._heard or not self._task.done() or self._task.cancelled() else self._task.exception()

    def __repr__(self) -> str:
        return f"<af.train.Writing of {self.path!r}{', done' if self.done() else ''}>"


class Writings:
    """The writes of a Saver, at most `most` at a time.

    Args:
        most: the most writes at a time.
        on_failure: called at once for each failure.
    """

    def __init__(self, most: int, on_failure: OnFailure | None) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"max_in_flight must be a whole number of at least 1, not {safe_repr(most)}")
        self._room: Final = asyncio.Semaphore(most)
        self._on_failure: Final = on_failure
        self._under_way: dict[Writing, None] = {}
        self._failed: list[Writing] = []

    async def room(self) -> None:
        """Reserve room for one more write until `begin` or `withdraw`. Waits for others to end."""
        await self._room.acquire()

    def withdraw(self) -> None:
        """Give back the room."""
        self._room.release()

    def begin(self, path: str, work: Coroutine[Any, Any, str]) -> Writing:
        """Begin to write a checkpoint in the reserved room, and return it."""
        made = Writing(path, work)
        self._under_way[made] = None
        made._task.add_done_callback(lambda task: self._on_write_end(made))
        return made

    def _on_write_end(self, writing: Writing) -> None:
        del self._under_way[writing]
        self._room.release()
        error = None if writing._task.cancelled() else writing._task.exception()
        if error is None:
            return
        self._failed.append(writing)
        if not writing._awaited:
            _log.error("checkpoint %r could not be written, training goes on without: %s", writing.path, error)
        if self._on_failure is not None:
            self._on_failure(writing.path, error)

    async def finish(self) -> None:
        """Wait until no write is under way. Raises the error of a failed write that no task has got yet."""
        while self._under_way:
            await asyncio.wait([writing._task for writing in self._under_way])
            await asyncio.sleep(0)
        unheard = [writing.unheard for writing in self._failed if writing.unheard is not None]
        self._failed.clear()
        for error in unheard[:1]:
            raise error

    async def cancel(self) -> None:
        """Give up all writes, and wait until they have ended."""
        while self._under_way:
            await next(iter(self._under_way)).cancel()
            await asyncio.sleep(0)
