"""Ops that write checkpoints and read them [P15 section 3.3].

One `save_shard` per task with variables writes the shards of a draft; `commit_checkpoint` turns the draft into a
checkpoint. `check_checkpoint` compares a checkpoint with the expected tensors, `restore_tensor` reads a value,
`adopt_variable` assigns it to a variable. They run only in steps that fetch them. Threads read and write the files; a
cancelled step leaves no checkpoint, but perhaps a draft, which a later save removes.
"""

import json
import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import checkpoint, errors
from aioflow.checkpoint import Checkpoint, Draft, Piece, ShardRecord, differences
from aioflow.files.byte_count import ByteCount, current_count
from aioflow.files.filesystem import Files
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.state.readers import text_of
from aioflow.kernels.state.variables import held
from aioflow.resources.containers import VariableState
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, STRING, Array, DeviceKind, DType, ShapeLike, Spec, TensorShape

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU
STATE: Final = "aioflow.state/"
"""The prefix of tensor names that hold the position of a run (queues, readers, counters) instead of a variable."""
_REST: Final = 3600.0
"""Seconds without a write after which another process's draft counts as abandoned."""
_TEXT = Spec(dtypes.string, SCALAR)
_BOOL = frozenset({dtypes.bool_})

Wanted = tuple[DType, TensorShape]
Slice = tuple[tuple[int, ...], tuple[int, ...]] | tuple[()]
"""The shape of the whole tensor that a value is a part of and the offset of the part; empty for a whole tensor."""


def _check_texts(*texts: Spec) -> None:
    for text in texts:
        text.only(STRING).with_rank(0)


# Writing


@op(waits=True)
def save_shard(
    path: Spec,
    token: Spec,
    values: Sequence[Spec],
    names: Sequence[str],
    slices: Sequence[Any],
    number: int,
    count: int,
) -> Spec:
    """Writes the values to shard `number` of `count` of a draft. Returns the records that `commit_checkpoint` takes.

    Args:
        path: the path of the future checkpoint.
        token: distinguishes this draft from others of the same path.
        values: the values to save.
        names: their names.
        slices: for each value a `Slice`.
        number: the number of the shard, from 0.
        count: the number of shards.
    """
    _check_texts(path, token)
    if not len(values) == len(names) == len(slices):
        raise ValueError(f"{len(values)} values, {len(names)} names and {len(slices)} slices do not belong together")
    if not 0 <= number < count:
        raise ValueError(f"shard {number} of {count} does not exist")
    return _TEXT


@save_shard.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    path: Array,
    token: Array,
    values: Sequence[Array],
    *,
    names: Sequence[str],
    slices: Sequence[Slice],
    number: int,
    count: int,
) -> Array:
    pieces = {name: _piece(value, part) for name, value, part in zip(names, values, slices, strict=True)}
    draft = text_of(path), _text(token), current_count()
    return _scalar(await ctx.step.with_files(_write, *draft, number, count, pieces))


def _piece(value: Array, part: Slice) -> Piece:
    array = np.asarray(value)
    full, start = part or (array.shape, (0,) * array.ndim)
    return Piece(array, full, start)


def _write(
    files: Files, path: bytes, token: str, written: ByteCount | None, number: int, count: int, pieces: dict[str, Piece]
) -> bytes:
    record = Draft(path, token, files, written).write_shard(number, count, pieces)
    return json.dumps(record.to_json()).encode()


@op(waits=True)
def commit_checkpoint(path: Spec, token: Spec, facts: Spec, records: Sequence[Spec]) -> Spec:
    """Makes the draft the checkpoint at `path`, atomically, in place of any older one there. Returns the path.

    Args:
        path: the path of the checkpoint.
        token: the token of the draft.
        facts: further contents of the index file, as a JSON object.
        records: the results of all `save_shard` operations.
    """
    _check_texts(path, token, facts, *records)
    return _TEXT


@commit_checkpoint.kernel(CPU, fresh=True)
async def _(ctx: Context, path: Array, token: Array, facts: Array, records: Sequence[Array]) -> Array:
    written = [text_of(record) for record in records]
    await ctx.step.with_files(_commit, text_of(path), _text(token), text_of(facts), written)
    return _scalar(text_of(path))


def _commit(files: Files, path: bytes, token: str, facts: bytes, records: list[bytes]) -> None:
    written = [ShardRecord.from_json(json.loads(record)) for record in records]
    Draft(path, token, files).commit(written, json.loads(facts))


@op(waits=True)
def discard_checkpoint(path: Spec, token: Spec) -> None:
    """Deletes the draft, if it exists."""
    _check_texts(path, token)


@discard_checkpoint.kernel(CPU, fresh=True)
async def _(ctx: Context, path: Array, token: Array) -> None:
    await ctx.step.with_files(_discard, text_of(path), _text(token))


def _discard(files: Files, path: bytes, token: str) -> None:
    Draft(path, token, files).discard()


# Reading


@op(waits=True)
def check_checkpoint(
    path: Spec,
    plain: Spec,
    renamed: Spec,
    chosen: Spec,
    names: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    extra: bool,
    reshape: Sequence[str],
) -> None:
    """Checks that the checkpoint holds tensors of those names, dtypes and shapes, and no others unless `extra`.

    Args:
        path: its path.
        plain: whether it is a safetensors file, or a folder of them with an index, instead of a checkpoint.
        renamed: a vector of the only tensors to see, each a new name and the name in the file; empty for all.
        chosen: a vector of the names to check; empty checks all.
        names: the expected names.
        types: the dtype of each.
        shapes: the shape of each, with open sizes where any will do.
        extra: whether it may hold other tensors.
        reshape: the names of tensors that only need the same number of elements.

    Raises:
        InvalidArgumentError: in the run: the checkpoint differs. The message names each difference.
        NotFoundError, DataLossError: in the run: the checkpoint does not exist, or it is damaged.
    """
    _check_texts(path)
    plain.only(_BOOL).with_rank(0)
    for texts in (renamed, chosen):
        texts.only(STRING).with_rank(1)


@check_checkpoint.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    path: Array,
    plain: Array,
    renamed: Array,
    chosen: Array,
    *,
    names: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    extra: bool,
    reshape: Sequence[str],
) -> None:
    only, every = {text.decode() for text in chosen.tolist()}, zip(names, types, shapes, strict=True)
    wanted = {name: (dtype, shape) for name, dtype, shape in every if name in only or not only}
    lenient = extra or bool(only)
    source = Source(text_of(path), bool(plain), tuple(renamed.tolist()))
    await ctx.step.with_files(_check, ctx.step.common(Opened), source, wanted, lenient, reshape)


class Source(NamedTuple):
    """What a step reads: a path, whether plain safetensors files are there, and new names, as in `check_checkpoint`."""

    path: bytes
    plain: bool
    renamed: tuple[bytes, ...]

    def open(self, files: Files) -> Checkpoint:
        """Open it. Blocks."""
        if not self.plain:
            return Checkpoint.open(self.path, files)
        found = checkpoint.import_safetensors(self.path, files)
        names = [name.decode() for name in self.renamed]
        return found.renamed(dict(zip(names[::2], names[1::2], strict=True))) if names else found


class Opened:
    """The checkpoints that a step reads on one task: each is opened once.

    Attributes:
        count: counts the bytes that the step reads.
    """

    def __init__(self) -> None:
        self.count: Final = current_count()
        self._lock = threading.Lock()
        self._found: dict[Source, Checkpoint] = {}

    def checkpoint(self, files: Files, source: Source) -> Checkpoint:
        """Read the checkpoint, or the plain safetensors files, on a thread."""
        with self._lock:
            if source not in self._found:
                self._found[source] = source.open(files)
                self._found[source].count = self.count
            return self._found[source]


def _check(
    files: Files,
    opened: Opened,
    source: Source,
    wanted: dict[str, Wanted],
    extra: bool,
    reshape: Sequence[str],
) -> None:
    found = opened.checkpoint(files, source)
    tensors = found.tensors.items()
    beside = {name: (stored.dtype, stored.shape) for name, stored in tensors if extra or name.startswith(STATE)}
    like = {name: _like(found, name, *wanted[name], name in reshape) for name in wanted}
    different = differences(found, {**beside, **like})
    if different:
        missing = sum(name not in found.tensors for name in wanted)
        kind = errors.NotFoundError if missing == len(different) else errors.InvalidArgumentError
        raise kind(
            f"{os.fsdecode(source.path)!r} does not match the variables to restore; none was restored: "
            f"{'; '.join(different)}"
        )
    if opened.count is not None:
        opened.count.expect(sum(piece.size for name in wanted for _, piece in found.tensors[name].pieces))


def _like(found: Checkpoint, name: str, dtype: DType, shape: TensorShape, reshape: bool) -> tuple[DType, ShapeLike]:
    """The expected dtype and shape; the shape found in the file where a reshape is allowed."""
    stored = found.tensors.get(name)
    if reshape and stored is not None and shape.num_elements() == math.prod(stored.shape):
        return dtype, stored.shape
    return dtype, shape


@op(waits=True)
def restore_tensor(
    path: Spec,
    plain: Spec,
    renamed: Spec,
    key: str,
    dtype: DType,
    shape: TensorShape,
    part: Any = (),
    reshape: bool = False,
) -> Spec:
    """Reads a tensor, or a part of it, from a checkpoint.

    Args:
        path: the path of the checkpoint.
        plain: as in `check_checkpoint`.
        renamed: as in `check_checkpoint`.
        key: the name of the tensor.
        dtype: its dtype.
        shape: the shape of the value.
        part: the `Slice` to read.
        reshape: whether to reshape the tensor to that shape.
    """
    _check_texts(path)
    plain.only(_BOOL).with_rank(0)
    renamed.only(STRING).with_rank(1)
    return Spec(dtype, TensorShape(shape))


@restore_tensor.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    path: Array,
    plain: Array,
    renamed: Array,
    *,
    key: str,
    shape: TensorShape,
    part: Slice,
    reshape: bool,
) -> Array:
    source = Source(text_of(path), bool(plain), tuple(renamed.tolist()))
    opened, sizes = ctx.step.common(Opened), [size for size in shape.sizes or () if size is not None]
    box = (part[1], sizes) if part else (None, None)
    value = await ctx.step.with_files(_read, opened, source, key, *box)
    return value.reshape(sizes) if reshape and shape.is_fully_defined() else value


def _read(
    files: Files,
    opened: Opened,
    source: Source,
    key: str,
    start: Sequence[int] | None,
    sizes: Sequence[int] | None,
) -> Array:
    return opened.checkpoint(files, source).read(key, start, sizes)


@op(waits=True)
def stored_names(path: Spec) -> Spec:
    """The names of the tensors of a safetensors file, or of a folder of them with an index."""
    _check_texts(path)
    return Spec(dtypes.string, TensorShape([None]))


@stored_names.kernel(CPU, fresh=True)
async def _(ctx: Context, path: Array) -> Array:
    return np.array(await ctx.step.with_files(_names, text_of(path)), object)


def _names(files: Files, path: bytes) -> list[bytes]:
    return [name.encode() for name in checkpoint.import_safetensors(path, files).tensors]


@op(stateful=True)
def adopt_variable(handle: Spec, value: Spec) -> None:
    """The variable holds the value itself, no copy of it: one that nothing else holds on to."""
    item = held(handle).same_dtype(value)
    item.shape.merge_with(value.shape)


@adopt_variable.kernel(CPU, GPU)
def _(ctx: Context, state: VariableState, value: Array) -> None:
    ctx.step.check()
    whole = isinstance(value, np.ndarray) and value.flags.writeable and value.flags.owndata
    if whole or ctx.kind is DeviceKind.GPU:
        state.adopt(value)
    else:
        state.assign(value)


# Keeping


@op(waits=True)
def tidy_checkpoint(path: Spec, owner: Spec, old: Spec, kept: Spec, live: Spec) -> None:
    """Deletes old checkpoints and abandoned drafts beside the new checkpoint at that path.

    A draft of another process counts as abandoned after an hour without a write; only drafts whose names differ from
    this checkpoint's in the step alone are considered. The text file `checkpoint` in the folder lists the checkpoints
    that are kept.

    Args:
        path: the path of the new checkpoint.
        owner: the prefix of the tokens of this process's drafts.
        old: a vector of the paths to delete. A path that leads to a kept checkpoint stays.
        kept: a vector of the paths of the kept checkpoints.
        live: a vector of the tokens of drafts that are still being written.
    """
    _check_texts(path, owner)
    for texts in (old, kept, live):
        texts.only(STRING).with_rank(1)


@tidy_checkpoint.kernel(CPU, fresh=True)
async def _(ctx: Context, path: Array, owner: Array, old: Array, kept: Array, live: Array) -> None:
    lists = [[text.decode() for text in x.tolist()] for x in (old, kept, live)]
    await ctx.step.with_files(_tidy, text_of(path), _text(owner), *lists)


def _tidy(files: Files, path: bytes, owner: str, old: list[str], kept: list[str], live: list[str]) -> None:
    folder, name = os.path.dirname(path) or b".", os.path.basename(os.fsdecode(path))
    staying = {checkpoint.resolve_path(each) for each in [path, *(kept if old else ())]}
    for gone in old:
        if checkpoint.resolve_path(gone) not in staying:
            checkpoint.delete_checkpoint(gone, files)
    if kept:
        checkpoint.write_pointer(folder, kept, files)
    before = time.time() - _REST
    checkpoint.sweep(folder, live, files, name=checkpoint.series(name), owner=owner, before=before)


@op(waits=True)
def latest_checkpoint(directory: Spec, damaged: Spec) -> Spec:
    """The path of the newest complete checkpoint in a directory; empty if none exists.

    Args:
        directory: the path of the directory.
        damaged: a vector of the paths of checkpoints known to be damaged.
    """
    _check_texts(directory)
    damaged.only(STRING).with_rank(1)
    return _TEXT


@latest_checkpoint.kernel(CPU, fresh=True)
async def _(ctx: Context, directory: Array, damaged: Array) -> Array:
    return _scalar(await ctx.step.with_files(_latest, text_of(directory), damaged.tolist()))


def _latest(files: Files, directory: bytes, damaged: list[bytes]) -> bytes:
    found = [os.fsencode(each.path) for each in checkpoint.list_checkpoints(directory, files)]
    return next((path for path in reversed(found) if path not in damaged), b"")


def _scalar(text: bytes) -> Array:
    value = np.empty((), object)
    value[()] = text
    return value


def _text(value: Array) -> str:
    return text_of(value).decode()


for _writing in (save_shard, commit_checkpoint, discard_checkpoint, tidy_checkpoint):
    _writing.no_gradient("it writes files")
for _reading in (check_checkpoint, restore_tensor, stored_names, latest_checkpoint):
    _reading.no_gradient("values read from files have no gradient")
adopt_variable.no_gradient("it changes state")
