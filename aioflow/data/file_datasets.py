"""Datasets of the records of files: TFRecords, lines, records of a fixed length, comma-separated values."""

from collections.abc import Callable, Sequence
from typing import Any

from aioflow.data.calls import UserFunction
from aioflow.data.checks import parallel, paths, positive
from aioflow.data.csv_files import CsvFile, CsvFormat
from aioflow.data.dataset import Dataset
from aioflow.data.interleave import FlatMap, Interleave
from aioflow.data.record_files import TEXT, RecordFile
from aioflow.data.sources import Slices
from aioflow.data.stage import Stage, user_line_text
from aioflow.files.filesystem import Path
from aioflow.files.record_formats import FixedLength, Format, TextLines, TFRecords
from aioflow.files.tfrecord_options import TFRecordOptions
from aioflow.tensors.recursion import safe_repr

Filenames = Path | Sequence[Path] | Dataset
"""The name of a file, several, or a dataset of names."""


class TFRecordDataset(Dataset):
    """The records of TFRecord files, as bytes, one file after the other.

    A damaged record raises DataLossError, a missing file NotFoundError.

    Args:
        filenames: the name of a file, several, or a dataset of names.
        compression_type: None, "ZLIB" or "GZIP".
        buffer_size: for compatibility: threads read up to 1 MiB ahead.
        num_parallel_reads: the number of files that are read at a time, of which the records come in turn.
        skip_corrupt: whether missing files and damaged records are left out, with one warning for each file.

    Examples:
        >>> with af.io.TFRecordWriter("more-records") as writer:
        ...     writer.write(b"tea")
        >>> [record async for record in af.data.TFRecordDataset("more-records")]
        [b'tea']
    """

    def __init__(
        self,
        filenames: Filenames,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        *,
        skip_corrupt: bool = False,
    ) -> None:
        options = TFRecordOptions(compression_type)
        form = TFRecords(options.compression_type, skip_corrupt)
        super().__init__(_records(filenames, num_parallel_reads, _opener("TFRecordDataset", form)))


class TextLineDataset(Dataset):
    """The lines of text files, as bytes without their ends, one file after the other.

    Args:
        filenames: the name of a file, several, or a dataset of names.
        compression_type: must be None: compressed text is not read.
        buffer_size: for compatibility: threads read up to 1 MiB ahead.
        num_parallel_reads: the number of files that are read at a time, of which the lines come in turn.

    Examples:
        >>> with open("words.txt", "w") as file:
        ...     print("tea", file=file)
        >>> [line async for line in af.data.TextLineDataset("words.txt")]
        [b'tea']
    """

    def __init__(
        self,
        filenames: Filenames,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        _check_uncompressed(compression_type)
        super().__init__(_records(filenames, num_parallel_reads, _opener("TextLineDataset", TextLines())))


class FixedLengthRecordDataset(Dataset):
    """The records of a fixed length of files, as bytes, one file after the other.

    Args:
        filenames: the name of a file, several, or a dataset of names.
        record_bytes: the bytes of a record.
        header_bytes: the bytes before the first record of a file.
        footer_bytes: the bytes after the last record of a file.
        buffer_size: for compatibility: threads read up to 1 MiB ahead.
        compression_type: must be None: compressed files are not read.
        num_parallel_reads: the number of files that are read at a time, of which the records come in turn.

    Examples:
        >>> with open("bytes", "wb") as file:
        ...     size = file.write(b"aabb")
        >>> [record async for record in af.data.FixedLengthRecordDataset("bytes", 2)]
        [b'aa', b'bb']
    """

    def __init__(
        self,
        filenames: Filenames,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
    ) -> None:
        _check_uncompressed(compression_type)
        form = FixedLength(positive(record_bytes, "record_bytes"), header_bytes or 0, footer_bytes or 0)
        super().__init__(_records(filenames, num_parallel_reads, _opener("FixedLengthRecordDataset", form)))


class CsvDataset(Dataset):
    """The records of files of comma-separated values, as tuples of scalars, one file after the other.

    Fields may be put in quotes, in which two quotes stand for one, and lines may end. Empty lines are left out.

    Args:
        filenames: the name of a file, several, or a dataset of names.
        record_defaults: for each column its dtype, if its fields must not be empty, or the value of empty fields.
        compression_type: must be None: compressed files are not read.
        buffer_size: for compatibility: threads read up to 1 MiB ahead.
        header: whether the first line of each file is left out.
        field_delim: the character between fields.
        use_quote_delim: whether quotes are anything but a character like others.
        na_value: fields of that text count as empty.
        select_cols: the numbers of the columns that are wanted, rising; all by default.
        exclude_cols: the numbers of the columns that are not wanted, instead of `select_cols`.

    Raises:
        InvalidArgumentError: in the iteration: a record has more or fewer fields, or one is empty, or spells no number.

    Examples:
        >>> with open("table.csv", "w") as file:
        ...     print("1,2.5", file=file)
        >>> [row async for row in af.data.CsvDataset("table.csv", [af.int32, af.float32])]
        [(np.int32(1), np.float32(2.5))]
    """

    def __init__(
        self,
        filenames: Filenames,
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ) -> None:
        _check_uncompressed(compression_type)
        columns = _selected(len(record_defaults), select_cols, exclude_cols)
        csv = CsvFormat(record_defaults, field_delim, use_quote_delim, na_value, columns)
        line = user_line_text()

        def opener(file: bytes) -> Stage:
            return CsvFile("CsvDataset", line, csv, header, file)

        super().__init__(_records(filenames, None, opener, csv.spec))


def _selected(count: int, wanted: Sequence[int] | None, unwanted: Sequence[int] | None) -> Sequence[int] | None:
    """Return the numbers of `count` wanted columns; None for all. ValueError if both lists are given."""
    if unwanted is None:
        return wanted
    if wanted is not None:
        raise ValueError("CsvDataset needs one of select_cols and exclude_cols, not both")
    others = set(unwanted)
    return [number for number in range(count + len(others)) if number not in others]


def _opener(name: str, form: Format) -> Callable[[bytes], Stage]:
    line = user_line_text()
    return lambda file: RecordFile(name, line, form, file)


def _records(
    filenames: Filenames, num_parallel_reads: int | None, opener: Callable[[bytes], Stage], spec: Any = TEXT
) -> Stage:
    """Return the stage of the records of files."""

    async def open_file(name: Any) -> Dataset:
        if not isinstance(name, bytes):
            raise TypeError(f"the name of a file is text, not {safe_repr(name)}")
        return Dataset(opener(name))

    function = UserFunction(open_file, "filenames")
    if num_parallel_reads is None:
        return FlatMap(_names(filenames), function, spec=spec)
    reads = parallel(num_parallel_reads, "num_parallel_reads")
    return Interleave(_names(filenames), function, reads, 1, reads, spec)


def _names(filenames: Filenames) -> Stage:
    if isinstance(filenames, Dataset):
        return filenames.stage
    return Slices(paths(filenames))


def _check_uncompressed(compression_type: str | None) -> None:
    if compression_type:
        raise ValueError(f"compression_type must be None here, not {safe_repr(compression_type)}")
