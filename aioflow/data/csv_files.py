"""Records of files of comma-separated values."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from aioflow import errors
from aioflow.data.record_files import FileCursor, RecordFile
from aioflow.data.stage import EndOfData
from aioflow.files.record_formats import TextLines
from aioflow.kernels.data.decoders import check_csv, csv_decoder
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import DType, Spec, as_dtype, spec_of
from aioflow.tensors.shape import SCALAR, TensorShape

LONG: Final = 1 << 16
"""Bytes: decoding a longer record would hold the loop too long."""


class CsvFormat:
    """How to decode records. TypeError or ValueError if it does not fit together.

    Args:
        record_defaults: for each column its dtype, if its fields must not be empty, or the value of empty fields.
        field_delim: the character between fields.
        use_quote_delim: whether fields may be put in quotes.
        na_value: fields of that text count as empty.
        select_cols: the numbers of the columns that are wanted, rising; None for all.
    """

    def __init__(
        self,
        record_defaults: Sequence[Any],
        field_delim: str,
        use_quote_delim: bool,
        na_value: str,
        select_cols: Sequence[int] | None,
    ) -> None:
        specs = [_default_spec(default) for default in record_defaults]
        check_csv(specs, field_delim, select_cols)
        kinds = [spec.dtype for spec in specs]
        self.spec: Final = tuple([Spec(kind, SCALAR) for kind in kinds])
        self.use_quotes: Final = use_quote_delim
        self._defaults: Final = [_default_values(default) for default in record_defaults]
        self._decode: Final = csv_decoder(kinds, field_delim, use_quote_delim, na_value, select_cols)

    def decode(self, record: bytes, number: int) -> tuple[Any, ...]:
        """Return the values of a record. InvalidArgumentError, with its number, if it has others."""
        return tuple([column[0] for column in self._decode([record], self._defaults, number)])


class _CsvCursor(FileCursor["CsvFile"]):
    async def _next(self) -> Any:
        record = await self._whole_record()
        decode = self.stage.csv.decode
        try:
            if len(record) > LONG:
                return await self._calls.on_thread(decode, record, self.given)
            return decode(record, self.given)
        except errors.OpError as error:
            raise self.stage.failed(error) from None

    async def _whole_record(self) -> bytes:
        """Return the next line that is not empty, with those that its quotes contain."""
        lines = [await self.record()]
        while not lines[0]:
            lines = [await self.record()]
        quotes = lines[0].count(b'"') if self.stage.csv.use_quotes else 0
        while quotes % 2:
            try:
                lines.append(await self.record())
            except EndOfData:
                break
            quotes += lines[-1].count(b'"')
        return b"\n".join(lines)


class CsvFile(RecordFile):
    """The records of a file of comma-separated values, as tuples.

    Attributes:
        csv: decodes the records.
    """

    cursor: ClassVar = _CsvCursor

    def __init__(self, name: str, line: str, csv: CsvFormat, header: bool, file: bytes) -> None:
        super().__init__(name, line, TextLines(skip_header_lines=int(header)), file, csv.spec)
        self.csv: Final = csv


def _default_spec(default: Any) -> Spec:
    dtype = _required(default)
    return spec_of(as_array(default)) if dtype is None else Spec(dtype, TensorShape([0]))


def _default_values(default: Any) -> list[Any]:
    return [] if _required(default) is not None else as_array(default).ravel().tolist()


def _required(default: Any) -> DType | None:
    """Return the dtype of a column whose fields must not be empty; None for the value of empty fields."""
    if isinstance(default, (DType, type, np.dtype)):
        return as_dtype(default)
    return None
