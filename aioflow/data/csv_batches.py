"""`make_csv_dataset`: batches of the columns of files of comma-separated values, by their names."""

from collections.abc import Sequence
from typing import Any

from aioflow.data.calls import UserFunction
from aioflow.data.checks import paths, positive
from aioflow.data.csv_columns import CsvColumns
from aioflow.data.dataset import Dataset
from aioflow.data.file_datasets import CsvDataset
from aioflow.data.record_files import Matching
from aioflow.data.transform import Map


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
) -> Dataset:
    r"""Return a dataset of dicts of columns, of `batch_size` rows each; of pairs with the labels for a `label_name`.

    The call reads the first rows of the files, for the names and the dtypes of columns that are not given.

    Args:
        file_pattern: names of files with `*`, `?` and `[...]`.
        batch_size: the number of rows of a batch.
        column_names: the names of all columns; by default those in the first line.
        column_defaults: for each selected column its dtype, if its fields must not be empty, or the value of empty
            fields. By default the narrowest of int32, int64, float32, float64 and string that has the values in the
            first rows, with 0 or empty text for empty fields.
        label_name: the column that is the label.
        select_columns: the names, or numbers, of the wanted columns; all by default.
        field_delim: the character between fields.
        use_quote_delim: whether fields may be put in quotes.
        na_value: fields of that text count as empty.
        header: whether the first line of each file is left out.
        num_epochs: how many times all rows are given; for ever by default.
        shuffle: whether files and rows come in a random order.
        shuffle_buffer_size: the most rows in the buffer from which the next one is drawn.
        shuffle_seed: decides the order.
        prefetch_buffer_size: the most batches that are made ahead; 1 by default.
        num_parallel_reads: the number of files that are read at a time; 1 by default.
        sloppy: permits another order, which is never taken.
        num_rows_for_inference: the number of rows that decide the dtypes; None for all.

    Raises:
        ValueError: the columns of the files differ, or there is no such column.
        InvalidArgumentError: no file matches.

    Examples:
        >>> with open("teas.csv", "w") as file:
        ...     size = file.write("name,minutes\nAssam,4\nSencha,2\n")
        >>> batches = af.data.experimental.make_csv_dataset(
        ...     "teas.csv", 2, label_name="minutes", num_epochs=1, shuffle=False
        ... )
        >>> [(columns["name"].tolist(), minutes.tolist()) async for columns, minutes in batches]
        [([b'Assam', b'Sencha'], [4, 2])]
    """
    found = [name.decode() for name in Matching(paths(file_pattern)).find()]
    columns = CsvColumns(found, column_names, field_delim, use_quote_delim, header)
    numbers = columns.chosen(select_columns)
    names = [columns.names[number] for number in numbers]
    if label_name is not None and label_name not in names:
        raise ValueError(f"label_name {label_name!r} is none of the columns {names}")
    if column_defaults is not None and len(column_defaults) != len(numbers):
        raise ValueError(f"there are {len(column_defaults)} column_defaults for {len(numbers)} columns")
    defaults = column_defaults or columns.defaults(numbers, na_value, num_rows_for_inference)

    def read(file: Any) -> Dataset:
        return CsvDataset([file], defaults, None, None, header, field_delim, use_quote_delim, na_value, numbers)

    files = Dataset.from_tensor_slices(found)
    rows = _in_turn(files.shuffle(len(found), shuffle_seed) if shuffle else files, read, num_parallel_reads or 1)
    if shuffle:
        rows = rows.shuffle(shuffle_buffer_size, shuffle_seed)
    batches = rows.repeat(num_epochs).batch(positive(batch_size, "batch_size"), num_epochs is None)
    spec = CsvDataset(found, defaults, select_cols=numbers).batch(batch_size, num_epochs is None).element_spec
    named = _named(batches, names, label_name, spec)
    return named.prefetch(1 if prefetch_buffer_size is None else prefetch_buffer_size)


def _in_turn(files: Dataset, read: Any, count: int) -> Dataset:
    return files.interleave(read, count, 1, None if count == 1 else count)


def _named(batches: Dataset, names: Sequence[str], label: str | None, spec: Sequence[Any]) -> Dataset:
    """Return a dataset of dicts of the columns, or of pairs of a dict and the label."""

    def as_named(columns: Sequence[Any]) -> Any:
        found = dict(zip(names, columns, strict=True))
        return found if label is None else (found, found.pop(label))

    async def name_columns(*columns: Any) -> Any:
        return as_named(columns)

    return Dataset(Map(batches.stage, UserFunction(name_columns, "name_columns"), as_named(spec)))
