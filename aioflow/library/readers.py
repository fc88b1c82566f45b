"""Handles of readers, which read records of files whose names come from a queue."""

from typing import Any, Final

from aioflow.files.tfrecord_options import TFRecordOptions
from aioflow.graph import scopes
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike
from aioflow.graph.op import Op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import readers as ops
from aioflow.library.queues import QueueBase
from aioflow.library.resource_handle import Handle, R
from aioflow.tensors.recursion import safe_repr


class ReaderBase(Handle):
    """Reads the records of files, whose names come from a queue, one after the other.

    Each record has a key, its origin, and a value, a string for decoders such as `af.decode_csv`. The reader takes the
    next name from the queue when it has finished a file, and waits for it if necessary. Threads read files ahead. A
    waiting read uses no thread, reads are served in order, and a cancelled run has taken nothing.

    A missing or corrupt file fails the run that reads it; the next run goes on with the next file. A reader with
    `skip_corrupt` skips the file instead: the log warns once for each such file, and `num_skipped` counts. Not created
    directly: see `TextLineReader` and the others.

    Examples:
        >>> isinstance(af.WholeFileReader(), af.ReaderBase)
        True
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = True) -> None:
        ops.ReaderSpec.check(reader_ref.spec)
        super().__init__(reader_ref)
        self._supports_serialize: Final = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle, a tensor."""
        return self._ref

    @property
    def supports_serialize(self) -> bool:
        """Whether `serialize_state` works: always."""
        return self._supports_serialize

    def read(self, queue: "QueueBase | Tensor", name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return key and value of the next record, as soon as there is one.

        Args:
            queue: the queue of file names, or its handle.
            name: the name of the operation.

        Raises:
            OutOfRangeError: in the run: the queue is closed and there are no more records.
            NotFoundError: in the run: there is no such file.
            DataLossError: in the run: a file is corrupt.
        """
        key, value = self._build_op(ops.reader_read, _handle(queue), name=name)
        return key, value

    def read_up_to(
        self, queue: "QueueBase | Tensor", num_records: TensorLike, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return keys and values of the next `num_records` records, two vectors.

        They come from one file, so there may be fewer, at least one.
        """
        keys, values = self._build_op(ops.reader_read_up_to, _handle(queue), num_records, name=name)
        return keys, values

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of records it has returned, int64."""
        return self._build_op(ops.reader_num_records_produced, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of files it has read to the end, int64."""
        return self._build_op(ops.reader_num_work_units_completed, name=name)

    def num_skipped(self, name: str | None = None) -> Tensor:
        """Return the number of skipped files, and parts of files, that were missing or corrupt, int64."""
        return self._build_op(ops.reader_num_skipped, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return a string with the position of the reader. It does not include the names in the queue."""
        return self._build_op(ops.reader_serialize_state, name=name)

    def restore_state(self, state: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that moves the reader to a serialized position."""
        return self._build_op(ops.reader_restore_state, state, name=name)

    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that resets the reader to its initial state. The rest of its file is not read."""
        return self._build_op(ops.reader_reset, name=name)

    def _build_op(self, op: Op[R], *inputs: Any, name: str | None) -> R:
        """Build the operation, on the reader's device."""
        with self._at_home(get_default_graph()):
            return op(self._ref, *inputs, name=name)


def _handle(queue: Any) -> Tensor:
    handle = getattr(queue, "queue_ref", queue)
    if not isinstance(handle, Tensor):
        raise TypeError(f"a reader takes the names of files of a queue, not of {queue!r}")
    return handle


@transactional
def _reader(op: Op[Tensor], name: str | None, shared_name: str | None = None, **attributes: Any) -> Tensor:
    """Build the handle, in the scope's container and without control inputs."""
    graph = get_default_graph()
    container = scopes.scope_of(graph).container
    with graph.control_dependencies(None):
        return op(**attributes, container=container, shared_name=shared_name or "", name=name)


class WholeFileReader(ReaderBase):
    """Returns the name of each file as key, and its contents as value.

    Args:
        name: the name of the operation.
        shared_name: sessions that share the container use one reader for this name.
        skip_corrupt: whether files that are missing are left out.

    Examples:
        >>> with open("whole.txt", "w") as file:
        ...     size = file.write("tea")
        >>> files = af.FIFOQueue(1, [af.string], shapes=[[]])
        >>> await session.run(files.enqueue("whole.txt"))
        >>> await session.run(af.WholeFileReader().read(files))
        (b'whole.txt', b'tea')
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None, *, skip_corrupt: bool = False) -> None:
        super().__init__(_reader(ops.whole_file_reader, name, shared_name, skip_corrupt=skip_corrupt))


class LMDBReader(ReaderBase):
    """Returns the keys and values of LMDB databases, in the order of the keys.

    The queue has the folders of databases, or their files, on the disk of the reader's task. Needs
    `pip install aioflow-engine[lmdb]`; without it reads fail with UnimplementedError.

    Args:
        name: the name of the operation.
        options: none are taken.
        shared_name: sessions that share the container use one reader for this name.

    Examples:
        >>> af.LMDBReader().supports_serialize
        True
    """

    def __init__(self, name: str | None = None, options: None = None, *, shared_name: str | None = None) -> None:
        if options is not None:
            raise TypeError(f"LMDBReader takes no options, as {safe_repr(options)}")
        super().__init__(_reader(ops.lmdb_reader, name, shared_name))


class TextLineReader(ReaderBase):
    """Returns the lines of files without line ends; keys are `file:line`, counted from 1.

    Args:
        skip_header_lines: the number of lines to skip at the beginning of each file.
        name: the name of the operation.
        shared_name: sessions that share the container use one reader for this name.
        skip_corrupt: whether files that are missing are left out.

    Examples:
        >>> with open("lines.txt", "w") as file:
        ...     print("tea", file=file)
        >>> files = af.FIFOQueue(1, [af.string], shapes=[[]])
        >>> await session.run(files.enqueue("lines.txt"))
        >>> await session.run(af.TextLineReader().read(files))
        (b'lines.txt:1', b'tea')
    """

    def __init__(
        self,
        skip_header_lines: int | None = None,
        name: str | None = None,
        shared_name: str | None = None,
        *,
        skip_corrupt: bool = False,
    ) -> None:
        attributes = {"skip_header_lines": skip_header_lines or 0, "skip_corrupt": skip_corrupt}
        super().__init__(_reader(ops.text_line_reader, name, shared_name, **attributes))


class FixedLengthRecordReader(ReaderBase):
    """Returns consecutive parts of files with `record_bytes` bytes each; keys are `file:record`, counted from 0.

    Args:
        record_bytes: the length of a record.
        header_bytes: the number of bytes to skip before the first record.
        footer_bytes: the number of bytes to ignore at the end of a file.
        hop_bytes: the distance between the beginnings of two records; by default their length.
        name: the name of the operation.
        encoding: for compatibility; files are not compressed.
        shared_name: sessions that share the container use one reader for this name.
        skip_corrupt: whether files that are missing, or shorter than header and footer, are left out.

    Examples:
        >>> with open("pairs", "wb") as file:
        ...     size = file.write(b"aabb")
        >>> files = af.FIFOQueue(1, [af.string], shapes=[[]])
        >>> await session.run(files.enqueue("pairs"))
        >>> await session.run(af.FixedLengthRecordReader(2).read(files))
        (b'pairs:0', b'aa')
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
        shared_name: str | None = None,
        *,
        skip_corrupt: bool = False,
    ) -> None:
        if encoding not in (None, "", "NONE"):
            raise ValueError(f"records of a fixed length are read of files as they are, not by {safe_repr(encoding)}")
        lengths = {"header_bytes": header_bytes or 0, "footer_bytes": footer_bytes or 0, "hop_bytes": hop_bytes or 0}
        attributes = {"record_bytes": record_bytes, "skip_corrupt": skip_corrupt, **lengths}
        super().__init__(_reader(ops.fixed_length_record_reader, name, shared_name, **attributes))


class TFRecordReader(ReaderBase):
    """Returns the records of TFRecord files; keys are `file:offset`.

    Args:
        name: the name of the operation.
        options: `TFRecordOptions`: the compression of the files, and how to treat corrupt records.
        shared_name: sessions that share the container use one reader for this name.

    Examples:
        >>> with af.io.TFRecordWriter("records-to-read") as writer:
        ...     writer.write(b"tea")
        >>> files = af.FIFOQueue(1, [af.string], shapes=[[]])
        >>> await session.run(files.enqueue("records-to-read"))
        >>> await session.run(af.TFRecordReader().read(files))
        (b'records-to-read:0', b'tea')
    """

    def __init__(
        self,
        name: str | None = None,
        options: TFRecordOptions | str | None = None,
        shared_name: str | None = None,
    ) -> None:
        given = TFRecordOptions.of(options)
        super().__init__(
            _reader(
                ops.tf_record_reader, name, shared_name, compression_type=given.compression_type,
                skip_corrupt=given.skip_corrupt, max_record_bytes=given.max_record_bytes,
                max_expansion=given.max_expansion,
            )
        )  # fmt: skip


class IdentityReader(ReaderBase):
    """Returns each element of the queue as key and as value.

    Examples:
        >>> work = af.FIFOQueue(1, [af.string], shapes=[[]])
        >>> await session.run(work.enqueue("part 7"))
        >>> await session.run(af.IdentityReader().read(work))
        (b'part 7', b'part 7')
    """

    def __init__(self, name: str | None = None, shared_name: str | None = None) -> None:
        super().__init__(_reader(ops.identity_reader, name, shared_name))
