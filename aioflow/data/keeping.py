"""The methods of datasets that keep elements: in memory, or in files."""

import os
from typing import TYPE_CHECKING, Any, Final

from aioflow.data import cache_file
from aioflow.data.cache import cached
from aioflow.data.checks import finite
from aioflow.data.dataset_base import DatasetBase
from aioflow.data.iterator import DatasetIterator
from aioflow.data.stage import Stage, user_line_text
from aioflow.data.structures import specs_of
from aioflow.files.filesystem import Path, as_name
from aioflow.tensors.recursion import safe_repr

if TYPE_CHECKING:
    from aioflow.data.dataset import Dataset

_NAME: Final = "elements"
"""The name of the file in the folder of a saved dataset."""


class Keeping(DatasetBase):
    """Methods of `Dataset`."""

    def cache(self, filename: Path = "") -> "Dataset":
        """Return a dataset of the same elements, which are made in the first complete iteration and kept.

        Args:
            filename: the file that keeps them; by default they stay in memory, as long as the dataset. Its folder is
                made if it is missing. The file is there once an iteration is complete. It is used as it is, also by
                other programs: remove it when the dataset has changed.

        Raises:
            ValueError: the dataset never ends.
        """
        return self._followed_by(cached(finite(self.stage, "cache"), filename))

    def snapshot(self, path: Path, compression: str | None = "AUTO") -> "Dataset":
        """Return a dataset of the same elements, which the first complete iteration writes to a folder.

        Later iterations, also of other programs, read them there: remove the folder when the dataset has changed.

        Args:
            path: the folder. `Dataset.load` reads it, too.
            compression: "AUTO" or None: files are not compressed.

        Raises:
            ValueError: the dataset never ends.
        """
        _check_compression(compression)
        return self._followed_by(cached(finite(self.stage, "snapshot"), _file_in(path)))

    async def save(self, path: Path, compression: str | None = None) -> None:
        """Write the elements of an iteration to a folder, in place of those that it has.

        The folder has either all elements or those before, even if the call is cancelled or fails.

        Args:
            path: the folder. `Dataset.load` reads it.
            compression: "AUTO" or None: files are not compressed.

        Raises:
            ValueError: the dataset never ends.
        """
        _check_compression(compression)
        stage = cache_file.Keeping(finite(self.stage, "save"), _file_in(path), "save")
        async with DatasetIterator(stage) as elements:
            async for _ in elements:
                pass


def kept_in(path: Path, element_spec: Any = None) -> Stage:
    """Return a stage of the elements that `save` wrote to a folder."""
    spec = None if element_spec is None else specs_of(element_spec)
    return cache_file.Kept("load", user_line_text(), _file_in(path), spec)


def _file_in(path: Path) -> str:
    return os.path.join(as_name(path), _NAME)


def _check_compression(compression: str | None) -> None:
    if compression not in ("AUTO", None):
        raise ValueError(f'compression must be "AUTO" or None here, not {safe_repr(compression)}')
