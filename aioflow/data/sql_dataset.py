"""Datasets of the rows that a query of a database gives."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from aioflow import errors
from aioflow.data.calls import UserFunction
from aioflow.data.dataset import Dataset
from aioflow.data.generators import Generator
from aioflow.tensors.dtypes import DTypeLike
from aioflow.tensors.recursion import safe_repr


class SqlDataset(Dataset):
    """The rows of the result of a query, as tuples of scalars. Threads read them, one row at a time.

    A position in it is the number of rows: to go on from a state, the query runs again, and the rows before are
    dropped. So it needs an ORDER BY.

    Args:
        driver_name: the kind of the database: "sqlite".
        data_source_name: the name of the file of the database.
        query: the query.
        output_types: the dtype of each column.

    Raises:
        InvalidArgumentError: in the iteration: the query fails, or a row has other columns.

    Examples:
        >>> import contextlib, sqlite3
        >>> with contextlib.closing(sqlite3.connect("teas.db")) as database, database:
        ...     _ = database.execute("create table teas (name text, minutes integer)")
        ...     _ = database.execute("insert into teas values ('Assam', 4), ('Sencha', 2)")
        >>> rows = af.data.experimental.SqlDataset(
        ...     "sqlite", "teas.db", "select * from teas order by minutes", (af.string, af.int32)
        ... )
        >>> [(name, int(minutes)) async for name, minutes in rows]
        [(b'Sencha', 2), (b'Assam', 4)]
    """

    def __init__(self, driver_name: str, data_source_name: str, query: str, output_types: Sequence[DTypeLike]) -> None:
        if driver_name != "sqlite":
            raise ValueError(f'driver_name must be "sqlite", not {safe_repr(driver_name)}')
        kinds = tuple(output_types) if isinstance(output_types, (list, tuple)) else (output_types,)
        rows = UserFunction(_rows, "query")
        super().__init__(Generator(rows, kinds, tuple([()] * len(kinds)), (data_source_name, query), "SqlDataset"))


def _rows(file: str, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query of the database in a file, which is only read. Each step may be on another thread."""
    try:
        place = f"{pathlib.Path(file).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, check_same_thread=False)) as database:
            yield from database.execute(query)
    except sqlite3.Error as error:
        raise errors.InvalidArgumentError(f"the query of {file!r} failed: {error}") from error
