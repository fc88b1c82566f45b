"""The columns of files of comma-separated values: their names in the first line, and dtypes that fit their values."""

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioflow.files.filesystem import FILES, translate_errors
from aioflow.tensors.dtypes import DType, float32, float64, int32, int64, string

_KINDS: Final = (int32, int64, float32, float64, string)
"""From the narrowest to the widest."""


class CsvColumns:
    """The columns of files of one form. ValueError if the first lines of the files differ, or they have none.

    Attributes:
        names: the names of all columns.

    Args:
        files: the names of the files.
        names: the names of the columns; None for those in the first line.
        delimiter: the character between fields.
        use_quotes: whether fields may be put in quotes.
        header: whether the first line has names.
    """

    def __init__(
        self, files: Sequence[str], names: Sequence[str] | None, delimiter: str, use_quotes: bool, header: bool
    ) -> None:
        self._files: Final = files
        self._delimiter: Final = delimiter
        self._quoting: Final = csv.QUOTE_MINIMAL if use_quotes else csv.QUOTE_NONE
        self._header: Final = header
        self.names: Final = self._named() if names is None else list(names)
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"columns have different names, unlike {self.names}")

    def _named(self) -> list[str]:
        if not self._header:
            raise ValueError("without a header, column_names must be given")
        found = {file: next(self._rows(file), []) for file in self._files}
        first, *others = found.items()
        for file, names in others:
            if names != first[1]:
                raise ValueError(f"{first[0]!r} has the columns {first[1]}, and {file!r} has {names}")
        return first[1]

    def _rows(self, file: str) -> Iterator[list[str]]:
        with translate_errors(file), FILES.open(file) as opened:
            lines = (line.decode(errors="replace") for line in opened)
            yield from csv.reader(lines, delimiter=self._delimiter, quoting=self._quoting)

    def chosen(self, columns: Sequence[Any] | None) -> list[int]:
        """Return the rising numbers of columns that are given by names or numbers; of all for None.

        ValueError if there is no such column, or one is given twice.
        """
        if columns is None:
            return list(range(len(self.names)))
        numbers = [self._number(column) for column in columns]
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"each column is given once, unlike in {list(columns)}")
        return sorted(numbers)

    def _number(self, column: Any) -> int:
        if isinstance(column, str) and column in self.names:
            return self.names.index(column)
        if isinstance(column, int) and 0 <= column < len(self.names):
            return column
        raise ValueError(f"there is no column {column!r}; the columns are {self.names}")

    def defaults(self, numbers: Sequence[int], na_value: str, most: int | None) -> list[Any]:
        """Return for each column the value of its empty fields: 0 or empty text, of the dtype that its values have.

        Args:
            numbers: the columns.
            na_value: fields of that text count as empty.
            most: the most rows of all files that are read; None for all.
        """
        kinds = dict.fromkeys(numbers, 0)
        seen: set[int] = set()
        for row in itertools.islice(self._data(), most):
            for number in numbers:
                if row[number] not in ("", na_value):
                    seen.add(number)
                    kinds[number] = _widened(kinds[number], row[number])
        found = [_KINDS[kinds[number]] if number in seen else string for number in numbers]
        return ["" if kind is string else kind.np.type(0) for kind in found]

    def _data(self) -> Iterator[list[str]]:
        """Yield the rows of all files. ValueError if one has more or fewer fields than there are columns."""
        for file in self._files:
            for number, row in enumerate(self._rows(file)):
                if row and len(row) != len(self.names):
                    raise ValueError(f"{file!r} has {len(row)} fields in row {number}, not {len(self.names)}")
                if row and (number or not self._header):
                    yield row


def _widened(kind: int, text: str) -> int:
    """Return the place of the first dtype from `kind` on that has the value of a text."""
    return next(place for place in range(kind, len(_KINDS)) if _HOLDS[place](text))


def _is_integer(dtype: DType) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            return bool(dtype.min <= int(text) <= dtype.max)
        except ValueError:
            return False

    return holds


def _is_float(dtype: DType) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            with np.errstate(over="ignore"):
                return not np.isinf(dtype.np.type(float(text)))
        except ValueError:
            return False

    return holds


_HOLDS: Final[list[Callable[[str], bool]]] = [
    _is_integer(int32), _is_integer(int64), _is_float(float32), _is_float(float64), lambda text: True,
]  # fmt: skip
