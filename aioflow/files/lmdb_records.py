"""The entries of LMDB databases as records. Only this module imports the package `lmdb`, when one is first read."""

import contextlib
import dataclasses
import importlib
import importlib.util
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

from aioflow import errors
from aioflow.files.filesystem import Files, as_name
from aioflow.files.record_formats import Found, Place

_DAMAGE = ("InvalidError", "CorruptedError", "PageNotFoundError", "VersionMismatchError", "PanicError")
"""The errors of the package for files that are no databases."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lmdb:
    """The entries of a database, in the order of their keys. A work item is its folder, or its file."""

    skip_corrupt: ClassVar[bool] = False
    single: ClassVar[bool] = False
    is_file: ClassVar[bool] = True

    def records(self, files: Files, work: bytes, place: Place | None = None) -> Found:
        """Entry after entry."""
        place = place or Place()
        name = as_name(work)
        with _entries(name, is_folder=files.size(work) is None) as (cursor, count):
            if place.number > count:
                raise errors.FailedPreconditionError(
                    f"{name!r} has {count} entries, and {place.number} were read: it has changed"
                )
            for key, value in itertools.islice(cursor, place.number, None):
                place.number += 1
                yield bytes(key), bytes(value)
        return 0


@contextlib.contextmanager
def _entries(name: str, is_folder: bool) -> Iterator[tuple[Any, int]]:
    """The entries of a database, and their number. It is opened without a lock, and only for reading."""
    if "://" in name:
        raise errors.UnimplementedError(f"an LMDB database is read from this machine's disk, not from {name!r}")
    lmdb = _package()
    try:
        with lmdb.open(name, subdir=is_folder, readonly=True, lock=False) as found, found.begin() as transaction:
            yield iter(transaction.cursor()), int(transaction.stat()["entries"])
    except lmdb.Error as error:
        kind = errors.DataLossError if type(error).__name__ in _DAMAGE else errors.FailedPreconditionError
        raise kind(f"{name!r} cannot be read as an LMDB database: {error}") from None


def _package() -> Any:
    if importlib.util.find_spec("lmdb") is None:
        raise errors.UnimplementedError("LMDB databases need the package lmdb: pip install aioflow-engine[lmdb]")
    return importlib.import_module("lmdb")
