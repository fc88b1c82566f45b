"""Ops that write checkpoints and read them [P15 section 3.3].

A checkpoint is written by `save_shard`, one per task with variables, and `commit_checkpoint`, which makes what they
have written a checkpoint. `check_checkpoint` compares one with what is wanted, `restore_tensor` reads a value,
`adopt_variable` gives it to a variable. They run only in steps that ask for them. Files are read and written on
threads; a step that is cancelled leaves no checkpoint, but perhaps a draft, which a later save sweeps away.
"""

import json
import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow import checkpoint, errors
from aioflow.checkpoint import Checkpoint, Draft, Piece, ShardRecord, differences
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
"""What the names of tensors begin with that hold no variables, but where a run was."""
_REST: Final = 3600.0
"""For so many seconds nothing was written in another process's draft that is taken for one that was given up."""
_TEXT = Spec(dtypes.string, SCALAR)
_BOOL = frozenset({dtypes.bool_})

Wanted = tuple[DType, TensorShape]
Slice = tuple[tuple[int, ...], tuple[int, ...]] | tuple[()]
"""Of what whole a value is a part, and where in it the part begins; nothing if it is the whole."""


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
    """The values are in shard `number` of `count` of a draft of the checkpoint. Gives what `commit_checkpoint` needs.

    Args:
        path: where the checkpoint will be.
        token: what tells this draft from others of the same path.
        values: what to save.
        names: under which names.
        slices: for each value a `Slice`.
        number: the number of the shard, from 0 on.
        count: how many shards there are.
    """
    _check_texts(path, token)
    if not len(values) == len(names) == len(slices):
        raise ValueError(f"{len(values)} values, {len(names)} names and {len(slices)} slices do not belong together")
    if not 0 <= number < count:
        raise ValueError(f"shard {number} of {count} is none")
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
    return _scalar(await ctx.step.with_files(_write, text_of(path), _text(token), number, count, pieces))


def _piece(value: Array, part: Slice) -> Piece:
    array = np.asarray(value)
    full, start = part or (array.shape, (0,) * array.ndim)
    return Piece(array, full, start)


def _write(files: Files, path: bytes, token: str, number: int, count: int, pieces: dict[str, Piece]) -> bytes:
    record = Draft(path, token, files).write_shard(number, count, pieces)
    return json.dumps(record.to_json()).encode()


@op(waits=True)
def commit_checkpoint(path: Spec, token: Spec, facts: Spec, records: Sequence[Spec]) -> Spec:
    """The draft is the checkpoint at `path`, whole, in place of any older one there. Gives the path.

    Args:
        path: where.
        token: which draft.
        facts: what else the checkpoint is to tell, as a JSON object.
        records: what `save_shard` gave, of all shards.
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
    """Nothing of the draft is left; nothing happens if there is none."""
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
    chosen: Spec,
    names: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    extra: bool,
    reshape: Sequence[str],
) -> None:
    """The checkpoint holds tensors of those names, dtypes and shapes, and no others unless `extra` lets it.

    Args:
        path: where it is.
        plain: whether it is a safetensors file, or a folder of them with an index, instead of a checkpoint.
        chosen: the names of those that matter now, a vector: whatever else is there does not. All if it is empty.
        names: what is wanted.
        types: the dtype of each.
        shapes: the shape of each, as far as that matters.
        extra: whether it may hold others.
        reshape: the names of those of which it is enough if they have as many elements.

    Raises:
        InvalidArgumentError: in the run: it does not. Each difference is told.
        NotFoundError, DataLossError: in the run: there is none, or it is not whole.
    """
    _check_texts(path)
    plain.only(_BOOL).with_rank(0)
    chosen.only(STRING).with_rank(1)


@check_checkpoint.kernel(CPU, fresh=True)
async def _(
    ctx: Context,
    path: Array,
    plain: Array,
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
    await ctx.step.with_files(_check, ctx.step.common(Opened), text_of(path), bool(plain), wanted, lenient, reshape)


class Opened:
    """The checkpoints that a step reads on one task: each is opened once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[bytes, bool], Checkpoint] = {}

    def checkpoint(self, files: Files, path: bytes, plain: bool) -> Checkpoint:
        """The checkpoint at that path; if it is plain, what safetensors files there hold. On a thread."""
        with self._lock:
            found = self._found.get((path, plain))
            if found is None:
                found = checkpoint.import_safetensors(path, files) if plain else Checkpoint.open(path, files)
                self._found[path, plain] = found
            return found


def _check(
    files: Files,
    opened: Opened,
    path: bytes,
    plain: bool,
    wanted: dict[str, Wanted],
    extra: bool,
    reshape: Sequence[str],
) -> None:
    found = opened.checkpoint(files, path, plain)
    tensors = found.tensors.items()
    beside = {name: (stored.dtype, stored.shape) for name, stored in tensors if extra or name.startswith(STATE)}
    like = {name: _like(found, name, *wanted[name], name in reshape) for name in wanted}
    different = differences(found, {**beside, **like})
    if different:
        raise errors.InvalidArgumentError(
            f"{os.fsdecode(path)!r} does not hold what is to be restored, and nothing was: {'; '.join(different)}"
        )


def _like(found: Checkpoint, name: str, dtype: DType, shape: TensorShape, reshape: bool) -> tuple[DType, ShapeLike]:
    """What is wanted; in the shape that is found, if that will do."""
    stored = found.tensors.get(name)
    if reshape and stored is not None and shape.num_elements() == math.prod(stored.shape):
        return dtype, stored.shape
    return dtype, shape


@op(waits=True)
def restore_tensor(
    path: Spec, plain: Spec, key: str, dtype: DType, shape: TensorShape, part: Any = (), reshape: bool = False
) -> Spec:
    """The tensor that the checkpoint has under that name, or a part of it.

    Args:
        path: where the checkpoint is.
        plain: as of `check_checkpoint`.
        key: the name.
        dtype: its dtype.
        shape: the shape of the value.
        part: the `Slice` that is wanted.
        reshape: whether it is brought into that shape.
    """
    _check_texts(path)
    plain.only(_BOOL).with_rank(0)
    return Spec(dtype, TensorShape(shape))


@restore_tensor.kernel(CPU, fresh=True)
async def _(
    ctx: Context, path: Array, plain: Array, *, key: str, shape: TensorShape, part: Slice, reshape: bool
) -> Array:
    opened, sizes = ctx.step.common(Opened), [size for size in shape.sizes or () if size is not None]
    box = (part[1], sizes) if part else (None, None)
    value = await ctx.step.with_files(_read, opened, text_of(path), bool(plain), key, *box)
    return value.reshape(sizes) if reshape and shape.is_fully_defined() else value


def _read(
    files: Files,
    opened: Opened,
    path: bytes,
    plain: bool,
    key: str,
    start: Sequence[int] | None,
    sizes: Sequence[int] | None,
) -> Array:
    return opened.checkpoint(files, path, plain).read(key, start, sizes)


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
    """Beside the new checkpoint at that path nothing is left of old ones, nor of drafts that were given up.

    Drafts of other processes are given up if nothing was written in them for an hour; and only those are looked at
    that are called like this checkpoint, but for the step. The text file `checkpoint` in the folder names those that
    are kept.

    Args:
        path: where it is.
        owner: what the tokens of drafts begin with that only the caller's process makes.
        old: the paths of those to delete, a vector. What leads to one that is kept stays.
        kept: the paths of those that are kept, a vector.
        live: the tokens of drafts that are still being written, a vector.
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
    """The path of the newest checkpoint in a directory that is whole; empty if there is none.

    Args:
        directory: where.
        damaged: the paths of those that are known not to be whole, a vector.
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
for _reading in (check_checkpoint, restore_tensor, latest_checkpoint):
    _reading.no_gradient("what a file holds has no history")
adopt_variable.no_gradient("it changes state")
