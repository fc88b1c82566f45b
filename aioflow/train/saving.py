"""The graph of a Saver: what takes the values of variables, writes them, reads them and gives them back.

[P15 section 3.3] Per task with variables there is one node that writes a shard; per variable one that reads it and one
that assigns it. Values never cross to another task, only the record of the write does. Nothing is assigned before
all is read, and nothing is read before the checkpoint is known to hold just what is wanted.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import identity, no_op, placeholder
from aioflow.kernels.state import checkpoint as files
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import TensorShape
from aioflow.train.savable import Entry, Savable, SavedVariable


class Feeds(NamedTuple):
    """What steps of a Saver are fed.

    Attributes:
        path: of the checkpoint.
        token: of the draft; for `tidy`, what those of all drafts of this process begin with.
        facts: what the checkpoint is to tell, as JSON.
        plain: whether the path leads to plain safetensors files.
        chosen: the names of the tensors that are restored; all if there are none.
        go: comes when all is read, and lets it be given back.
        old: the paths of checkpoints to delete.
        kept: the paths of those to keep.
        live: the tokens of drafts that are being written.
        damaged: the paths of checkpoints that could not be restored.
    """

    path: Tensor
    token: Tensor
    facts: Tensor
    plain: Tensor
    chosen: Tensor
    go: Tensor
    old: Tensor
    kept: Tensor
    live: Tensor
    damaged: Tensor


class Giving(NamedTuple):
    """Values of a checkpoint on their way back.

    Attributes:
        names: of the tensors they are read from.
        read: there when they are read.
        given: there when those have them again who had them when they were saved.
    """

    names: Sequence[str]
    read: Tensor
    given: Tensor


@dataclasses.dataclass(frozen=True, slots=True)
class Nodes:
    """The operations that a Saver runs.

    Attributes:
        feeds: what that needs.
        taken: there when the values that will be written are taken; None if each is taken when it is written.
        saved: the path, when the checkpoint is there.
        discard: leaves nothing of a draft.
        tidy: leaves nothing of old checkpoints, and of drafts that were given up.
        latest: the path of the newest checkpoint in the folder that is fed as path, but for damaged ones, or nothing.
        every: gives back all that was saved.
        each: gives back what a variable had, by the names of the variables' operations.
    """

    feeds: Feeds
    taken: Tensor | None
    saved: Tensor
    discard: Operation
    tidy: Operation
    latest: Tensor
    every: Giving
    each: Mapping[str, Giving]


class Group(NamedTuple):
    """The content of one shard: the variables of a task, and the device that writes and reads them."""

    device: str
    members: Sequence[Savable]


def build(
    graph: Graph, saved: Sequence[Savable], name: str, *, sharded: bool, consistent: bool, extra: bool, reshape: bool
) -> Nodes:
    """The nodes, below a name scope.

    Args:
        graph: where.
        saved: the objects that are saved and restored.
        name: of the scope.
        sharded: whether each task writes a shard of its own.
        consistent: whether all values are taken at one moment.
        extra: whether a checkpoint to restore from may hold more.
        reshape: whether restored values are brought into the shapes of variables.
    """
    groups = grouped(saved, sharded)
    around = graph.control_dependencies(None), graph.device(None), graph.name_scope(name)
    with graph.transaction(), graph.as_default(), around[0], around[1], around[2]:
        feeds = _feeds()
        values, taken = _cut(graph, groups, feeds) if consistent else (_read(graph, groups), None)
        saved_path = _written(graph, groups, values, feeds)
        kept = _kept(graph, groups[0].device, feeds)
        return Nodes(feeds, taken, saved_path, *kept, *_restored(graph, groups, feeds, extra, reshape))


def _feeds() -> Feeds:
    path, token, facts, go = [placeholder(dtypes.string, [], name) for name in ("path", "token", "facts", "go")]
    texts = ("chosen", "old", "kept", "live", "damaged")
    chosen, *lists = [placeholder(dtypes.string, [None], name) for name in texts]
    return Feeds(path, token, facts, placeholder(dtypes.bool_, [], "plain"), chosen, go, *lists)


# Where


def grouped(saved: Sequence[Savable], sharded: bool) -> list[Group]:
    """The objects to save, by the tasks of their variables, in the order of the task names.

    A shard has no two parts of one tensor: a task that has them writes several.
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
    """The device that is asked for by an operation, and by all that are to share its device, as far as it is."""
    found, names, seen = DeviceSpec(), [operation.name], set[str]()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            each = operation.graph.get_operation_by_name(name)
            found = DeviceSpec.from_string(each.device).merge(found)
            names += each.colocation
    return found


def file_device(operation: Operation) -> str:
    """The device that reads and writes files on the task of that operation; empty if nothing is asked for."""
    spec = home_of(operation)
    if spec == DeviceSpec():
        return ""
    return dataclasses.replace(spec, device_type="CPU", device_index=0).to_string()


@contextmanager
def _beside(graph: Graph, saved: Savable, after: Iterable[Operation] = ()) -> Iterator[None]:
    with graph.colocate_with(saved.home, ignore_existing=True), graph.control_dependencies(list(after)):
        yield


@contextmanager
def _at(graph: Graph, device: str, after: Iterable[Operation] = ()) -> Iterator[None]:
    with graph.device(device or None), graph.control_dependencies(list(after)):
        yield


def _joined(graph: Graph, groups: Sequence[Group], work: Sequence[Sequence[Operation]]) -> Operation:
    """It is done when the work of all groups is; few control edges lead to other tasks."""
    done = []
    for group, operations in zip(groups, work, strict=True):
        with _at(graph, group.device, operations):
            done.append(no_op())
    with _at(graph, groups[0].device, done):
        return no_op()


def _meeting(graph: Graph, groups: Sequence[Group], work: Sequence[Sequence[Operation]]) -> list[Operation]:
    """For each group an operation that is done when the work of all is."""
    all_done, gates = _joined(graph, groups, work), []
    for group in groups:
        with _at(graph, group.device, [all_done]):
            gates.append(no_op())
    return gates


# Saving


def _read(graph: Graph, groups: Sequence[Group]) -> list[list[Tensor]]:
    """The values, each as it is when it is read."""
    return [[value for saved in group.members for value in _taken(graph, saved, cut=False)] for group in groups]


def _taken(graph: Graph, saved: Savable, cut: bool, after: Sequence[Operation] = ()) -> Sequence[Tensor]:
    with _beside(graph, saved, after):
        return saved.take(cut)


def _cut(graph: Graph, groups: Sequence[Group], feeds: Feeds) -> tuple[list[list[Tensor]], Tensor]:
    """The values that all that a task has had at one moment, and what is there when these are taken."""
    marks: list[list[Operation]] = [[] for _ in groups]
    for group, mine in zip(groups, marks, strict=True):
        for saved in group.members:
            with _beside(graph, saved):
                mine.append(saved.mark())
    values = [
        [value for saved in group.members for value in _taken(graph, saved, True, [gate])]
        for group, gate in zip(groups, _meeting(graph, groups, marks), strict=True)
    ]
    gates = _meeting(graph, groups, [[value.op for value in mine] for mine in values])
    with _at(graph, groups[0].device, gates[:1]):
        return values, identity(feeds.path, name="taken")


def _written(graph: Graph, groups: Sequence[Group], values: Sequence[Sequence[Tensor]], feeds: Feeds) -> Tensor:
    """The path, when all is written and the checkpoint is there."""
    records = []
    for number, (group, mine) in enumerate(zip(groups, values, strict=True)):
        entries = [entry for saved in group.members for entry in saved.entries]
        names, parts = [entry.name for entry in entries], [entry.part for entry in entries]
        with _at(graph, group.device):
            records.append(files.save_shard(feeds.path, feeds.token, mine, names, parts, number, len(groups)))
    with _at(graph, groups[0].device):
        return files.commit_checkpoint(feeds.path, feeds.token, feeds.facts, records, name="saved")


def _kept(graph: Graph, device: str, feeds: Feeds) -> tuple[Operation, Operation, Tensor]:
    """What keeps order among checkpoints."""
    with _at(graph, device):
        discard = files.discard_checkpoint(feeds.path, feeds.token, name="discard")
        tidy = files.tidy_checkpoint(feeds.path, feeds.token, feeds.old, feeds.kept, feeds.live, name="tidy")
        return discard, tidy, files.latest_checkpoint(feeds.path, feeds.damaged, name="latest")


# Restoring


def _restored(
    graph: Graph, groups: Sequence[Group], feeds: Feeds, extra: bool, reshape: bool
) -> tuple[Giving, dict[str, Giving]]:
    """The operations that return all values, and the value of one variable."""
    with _at(graph, groups[0].device):
        check = _checked(groups, feeds, extra, reshape)
    found = [[_giving(graph, group, saved, check, feeds, reshape) for saved in group.members] for group in groups]
    all_read = _joined(graph, groups, [[giving.read.op for giving in mine] for mine in found])
    all_given = _joined(graph, groups, [[giving.given.op for giving in mine] for mine in found])
    with _at(graph, groups[0].device, [all_read]):
        read = identity(feeds.path, name="read")
    with _at(graph, groups[0].device, [all_given]):
        every = Giving((), read, identity(feeds.go, name="restored"))
    members = [saved for group in groups for saved in group.members]
    pairs = zip(members, [giving for mine in found for giving in mine], strict=True)
    return every, {saved.home.name: giving for saved, giving in pairs if isinstance(saved, SavedVariable)}


def _giving(graph: Graph, group: Group, saved: Savable, check: Operation, feeds: Feeds, reshape: bool) -> Giving:
    """What gives back one: in a run in two calls, for nothing is given before all is read."""
    with _at(graph, group.device, [check]):
        values = [_value(entry, feeds, reshape) for entry in saved.entries]
    with _at(graph, group.device, [value.op for value in values]):
        read, gate = identity(feeds.path), identity(feeds.go)
    with _beside(graph, saved, [gate.op]):
        back = saved.give_back(values)
    with _at(graph, group.device, [back]):
        return Giving([entry.name for entry in saved.entries], read, identity(feeds.go))


def _checked(groups: Sequence[Group], feeds: Feeds, extra: bool, reshape: bool) -> Operation:
    entries = [entry for group in groups for saved in group.members for entry in saved.entries]
    wanted = {entry.name: entry for entry in entries}
    shapes = [TensorShape(entry.part[0]) if entry.part else entry.shape for entry in wanted.values()]
    types = [entry.dtype for entry in wanted.values()]
    reshaped = [entry.name for entry in wanted.values() if reshape and not entry.part]
    return files.check_checkpoint(
        feeds.path, feeds.plain, feeds.chosen, list(wanted), types, shapes, extra, reshaped, name="check"
    )


def _value(entry: Entry, feeds: Feeds, reshape: bool) -> Tensor:
    return files.restore_tensor(feeds.path, feeds.plain, entry.name, entry.dtype, entry.shape, entry.part, reshape)
