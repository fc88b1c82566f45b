"""A plain safetensors file of arrays, as other programs read and write them: without a manifest and checksums."""

import itertools
from collections.abc import Mapping

from aioflow import errors
from aioflow.checkpoint.draft import lay_out
from aioflow.checkpoint.header import header
from aioflow.checkpoint.storage import locate
from aioflow.files.filesystem import FILES, Files, Path, as_name
from aioflow.tensors.dtypes import Array


def export_safetensors(path: Path, arrays: Mapping[str, Array], files: Files = FILES) -> str:
    """Write the arrays to a file, by their names, in place of an older one; return its path. It blocks.

    UnimplementedError for texts, which the format does not have.
    """
    texts = [name for name, array in arrays.items() if array.dtype.hasobject]
    if texts:
        raise errors.UnimplementedError(
            f"{texts[0]!r} is an array of texts, which a plain safetensors file cannot have"
        )
    given = as_name(path)
    storage, name = locate(given, files)
    entries, data = lay_out(arrays)
    storage.write(name, itertools.chain([memoryview(header(entries))], data))
    return given
