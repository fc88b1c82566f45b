"""Ops on readers (handles, reads, state), and on whole files. Waiting for a work item holds no thread."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.files.filesystem import Files
from aioflow.files.lmdb_records import Lmdb
from aioflow.files.record_formats import FixedLength, Format, Identity, Record, TextLines, TFRecords, WholeFile
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, Op, op
from aioflow.kernels import known
from aioflow.kernels.context import Context
from aioflow.kernels.state.resource_handles import QueueSpec
from aioflow.queues import Queue
from aioflow.resources.reader import Reader
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import SCALAR, STRING, Array, DeviceKind, ResourceSpec, Spec, TensorShape

CPU = DeviceKind.CPU
_TEXT = Spec(dtypes.string, SCALAR)


class ReaderSpec(ResourceSpec):
    """A handle to a reader."""

    __slots__ = ()

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> "ReaderSpec":
        """`spec` as a handle to a reader. TypeError if it is not a reader handle."""
        if not isinstance(spec, cls):
            raise TypeError(f"a handle to a reader is needed, not {spec}")
        return spec


def _lengths(**lengths: int) -> None:
    for what, length in lengths.items():
        least = 1 if what == "record_bytes" else 0
        if length < least:
            raise ValueError(f"{what} is {least} or more, not {length}")


# Handles


@op(stateful=True, observes=True, handle=True)
def identity_reader(container: str = "", shared_name: str = "") -> Spec:
    """A handle to a reader that gives the work items themselves."""
    return ReaderSpec(())


@op(stateful=True, observes=True, handle=True)
def whole_file_reader(container: str = "", shared_name: str = "", skip_corrupt: bool = False) -> Spec:
    """A handle to a reader that gives the whole contents of each file."""
    return ReaderSpec(())


@op(stateful=True, observes=True, handle=True)
def text_line_reader(
    skip_header_lines: int = 0, container: str = "", shared_name: str = "", skip_corrupt: bool = False
) -> Spec:
    """A handle to a reader of the lines of each file, without the first `skip_header_lines`."""
    _lengths(skip_header_lines=skip_header_lines)
    return ReaderSpec(())


@op(stateful=True, observes=True, handle=True)
def fixed_length_record_reader(
    record_bytes: int,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    hop_bytes: int = 0,
    container: str = "",
    shared_name: str = "",
    skip_corrupt: bool = False,
) -> Spec:
    """A handle to a reader of records of `record_bytes`, one every `hop_bytes`; 0 means one after the other."""
    _lengths(record_bytes=record_bytes, header_bytes=header_bytes, footer_bytes=footer_bytes, hop_bytes=hop_bytes)
    return ReaderSpec(())


@op(stateful=True, observes=True, handle=True)
def tf_record_reader(
    compression_type: str = "",
    skip_corrupt: bool = False,
    max_record_bytes: int = 1 << 30,
    max_expansion: float = 250.0,
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """A handle to a reader that gives the payloads of the TFRecords of each file."""
    if compression_type not in ("", "ZLIB", "GZIP"):
        raise ValueError(f"the compression of records is 'ZLIB', 'GZIP' or '', not {compression_type!r}")
    return ReaderSpec(())


@op(stateful=True, observes=True, handle=True)
def lmdb_reader(container: str = "", shared_name: str = "") -> Spec:
    """A handle to a reader of the entries of LMDB databases."""
    return ReaderSpec(())


def _opens(handle: Op[Any], form: Callable[..., Format], *names: str) -> None:
    """Declare the kernel of a handle: a reader of the format that the attributes of these names make."""
    handle.no_gradient("a handle has no history")

    @handle.kernel(CPU)
    def _(ctx: Context, *, node: NodeView) -> Reader:
        wanted = form(*[node.attrs[name] for name in names])
        name = node.attrs["shared_name"] or node.name
        container = ctx.resources.container(node.attrs["container"])
        reader = container.lookup_or_create(Reader, name, lambda: Reader(name, wanted))
        if reader.format != wanted:
            raise errors.InvalidArgumentError(
                f"reader {name!r} is shared as one of {reader.format}, and cannot be one of {wanted} too"
            )
        return reader


_opens(identity_reader, Identity)
_LENGTHS = ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes")
_opens(whole_file_reader, WholeFile, "skip_corrupt")
_opens(text_line_reader, TextLines, "skip_header_lines", "skip_corrupt")
_opens(fixed_length_record_reader, FixedLength, *_LENGTHS, "skip_corrupt")
_opens(lmdb_reader, Lmdb)
_opens(tf_record_reader, TFRecords, "compression_type", "skip_corrupt", "max_record_bytes", "max_expansion")


# Reading


def _check_queue(queue: Spec) -> None:
    items = QueueSpec.check(queue).items
    if len(items) != 1 or items[0].dtype is not dtypes.string or not items[0].shape.is_compatible_with([]):
        raise TypeError(f"a reader takes names of a queue of single strings, not of one of {queue}")


@op(waits=True)
def reader_read(reader: Spec, queue: Spec) -> tuple[Spec, Spec]:
    """The key and value of the reader's next record; at the end of a work item waits for the queue's next one.

    OutOfRangeError when the queue is closed and empty.
    """
    ReaderSpec.check(reader)
    _check_queue(queue)
    return _TEXT, _TEXT


@reader_read.kernel(CPU, fresh=True)
async def _(ctx: Context, reader: Reader, queue: Queue, *, node: NodeView) -> tuple[Any, Any]:
    ((key, value),) = await _records(ctx, reader, queue, 1, node)
    return _scalar(key), _scalar(value)


async def _records(ctx: Context, reader: Reader, queue: Queue, count: int, node: NodeView) -> list[Record]:
    taken = await reader.read_marked(queue, count, ctx.step.with_files, node)
    ctx.took(functools.partial(reader.put_back, taken))
    return [record for _, record in taken]


@op(waits=True)
def reader_read_up_to(reader: Spec, queue: Spec, num_records: Ints) -> tuple[Spec, Spec]:
    """The keys and values of the reader's next records: at most `num_records`, at least one, from one work item."""
    ReaderSpec.check(reader)
    _check_queue(queue)
    count = known.scalar(num_records, "num_records")
    if count is not None and count < 1:
        raise ValueError(f"num_records is 1 or more, not {count}")
    return Spec(dtypes.string, TensorShape.vector(None)), Spec(dtypes.string, TensorShape.vector(None))


@reader_read_up_to.kernel(CPU, fresh=True)
async def _(ctx: Context, reader: Reader, queue: Queue, num_records: Array, *, node: NodeView) -> tuple[Array, Array]:
    count = int(num_records)
    if count < 1:
        raise errors.InvalidArgumentError(f"num_records is 1 or more, not {count}")
    records = await _records(ctx, reader, queue, count, node)
    keys, values = np.empty(len(records), object), np.empty(len(records), object)
    keys[:], values[:] = [key for key, _ in records], [value for _, value in records]
    return keys, values


def _scalar(text: bytes) -> Array:
    value = np.empty((), object)
    value[()] = text
    return value


# Asking and changing


@op(stateful=True)
def reader_num_records_produced(reader: Spec) -> Spec:
    """How many records the reader has given."""
    ReaderSpec.check(reader)
    return Spec(dtypes.int64, SCALAR)


reader_num_records_produced.kernel(CPU, fresh=True, binds=True)(
    lambda xp, node: lambda reader: np.int64(reader.records_produced)
)


@op(stateful=True)
def reader_num_work_units_completed(reader: Spec) -> Spec:
    """How many work items the reader has read to their end."""
    ReaderSpec.check(reader)
    return Spec(dtypes.int64, SCALAR)


reader_num_work_units_completed.kernel(CPU, fresh=True, binds=True)(
    lambda xp, node: lambda reader: np.int64(reader.work_units_completed)
)


@op(stateful=True)
def reader_num_skipped(reader: Spec) -> Spec:
    """How many files, and parts of files, the reader has left out since they are missing or corrupt."""
    ReaderSpec.check(reader)
    return Spec(dtypes.int64, SCALAR)


reader_num_skipped.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda reader: np.int64(reader.skipped))


@op(stateful=True)
def reader_serialize_state(reader: Spec) -> Spec:
    """The position of the reader, as a string for `reader_restore_state`."""
    ReaderSpec.check(reader)
    return _TEXT


reader_serialize_state.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda reader: _scalar(reader.state()))


@op(waits=True)
def reader_restore_state(reader: Spec, state: Spec) -> None:
    """Moves the reader to a position from `reader_serialize_state`. InvalidArgumentError for any other string."""
    ReaderSpec.check(reader)
    state.only(STRING).with_rank(0)


@reader_restore_state.kernel(CPU, fresh=True)
async def _(ctx: Context, reader: Reader, state: Array, *, node: NodeView) -> None:
    await reader.restore(text_of(state), node)


@op(waits=True)
def reader_reset(reader: Spec) -> None:
    """Resets the reader to its initial state, after the reads in progress."""
    ReaderSpec.check(reader)


@reader_reset.kernel(CPU, fresh=True)
async def _(ctx: Context, reader: Reader, *, node: NodeView) -> None:
    await reader.reset(node)


# Whole files


@op(waits=True)
def read_file(filename: Spec) -> Spec:
    """The contents of the file of that name, as a string. NotFoundError if it does not exist.

    Examples:
        >>> with open("tea.txt", "w") as file:
        ...     size = file.write("Assam")
        >>> await session.run(af.read_file("tea.txt"))
        b'Assam'
    """
    filename.only(STRING).with_rank(0)
    return _TEXT


@read_file.kernel(CPU, fresh=True)
async def _(ctx: Context, filename: Array) -> Array:
    return _scalar(await ctx.step.with_files(Files.read, text_of(filename)))


@op(waits=True)
def write_file(filename: Spec, contents: Spec) -> None:
    """The file of that name holds the string, and the folders above it exist.

    Examples:
        >>> from pathlib import Path
        >>> await session.run(af.write_file("note.txt", "tea"))
        >>> Path("note.txt").read_text()
        'tea'
    """
    filename.only(STRING).with_rank(0)
    contents.only(STRING).with_rank(0)


@write_file.kernel(CPU, fresh=True)
async def _(ctx: Context, filename: Array, contents: Array) -> None:
    await ctx.step.with_files(Files.write, text_of(filename), text_of(contents))


@op(waits=True)
def matching_files(pattern: Spec) -> Spec:
    """The names of the files that match a pattern of `*`, `?` and `[...]`, or one of several patterns, sorted.

    Examples:
        >>> with open("a.txt", "w") as file:
        ...     print("tea", file=file)
        >>> await session.run(af.matching_files("a*.txt"))
        array([b'a.txt'], dtype=object)
    """
    pattern.only(STRING)
    return Spec(dtypes.string, TensorShape.vector(None))


@matching_files.kernel(CPU, fresh=True)
async def _(ctx: Context, pattern: Array) -> Array:
    return await ctx.step.with_files(_matching, np.asarray(pattern, object).ravel().tolist())


def _matching(files: Files, patterns: list[bytes]) -> Array:
    found = {name.encode(errors="surrogateescape") for pattern in patterns for name in files.matching(pattern)}
    names = np.empty(len(found), object)
    names[:] = sorted(found)
    return names


def text_of(value: Array) -> bytes:
    """The bytes of a string, however a tensor of rank 0 holds it."""
    text = value[()] if isinstance(value, np.ndarray) else value
    return text if isinstance(text, bytes) else bytes(text)


for _op in (reader_read, reader_read_up_to, read_file, matching_files):
    _op.no_gradient("values read from files have no gradient")
for _changing in (reader_reset, reader_restore_state, write_file):
    _changing.no_gradient("it changes state")
_ASKING: list[Op[Any]] = [
    reader_num_records_produced, reader_num_skipped, reader_num_work_units_completed, reader_serialize_state,
]  # fmt: skip
for _asking in _ASKING:
    _asking.no_gradient("it reads the state of a reader")
