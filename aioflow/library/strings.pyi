"""`af.strings`: functions of strings, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import as_string as as_string
from aioflow import regex_full_match as regex_full_match
from aioflow import regex_replace as regex_replace
from aioflow import string_join as join
from aioflow import string_length as length
from aioflow import string_lower as lower
from aioflow import string_strip as strip
from aioflow import string_to_hash_bucket as to_hash_bucket
from aioflow import string_to_hash_bucket_fast as to_hash_bucket_fast
from aioflow import string_to_hash_bucket_strong as to_hash_bucket_strong
from aioflow import string_to_number as to_number
from aioflow import string_upper as upper
from aioflow import substr as substr
from aioflow.kernels.text.strings import reduce_join as reduce_join
from aioflow.kernels.text.strings import split as split
from aioflow.kernels.text.text_pieces import bytes_split as bytes_split
from aioflow.kernels.text.text_pieces import ngrams as ngrams
from aioflow.kernels.text.unicode import unicode_decode as unicode_decode
from aioflow.kernels.text.unicode import unicode_decode_with_offsets as unicode_decode_with_offsets
from aioflow.kernels.text.unicode import unicode_encode as unicode_encode
from aioflow.kernels.text.unicode import unicode_split as unicode_split
from aioflow.kernels.text.unicode import unicode_split_with_offsets as unicode_split_with_offsets
from aioflow.library.printing import format as format

__all__ = ["as_string", "bytes_split", "format", "join", "length", "lower", "ngrams", "reduce_join", "regex_full_match",
    "regex_replace", "split", "strip", "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong",
    "to_number", "unicode_decode", "unicode_decode_with_offsets", "unicode_encode", "unicode_split",
    "unicode_split_with_offsets", "unicode_transcode", "unsorted_segment_join", "upper"]

def unsorted_segment_join(
    inputs: TextLike,
    segment_ids: TensorLike,
    num_segments: NumberLike,
    separator: str = "",
    name: str | None = None,
) -> Tensor:
    """The strings of each of `num_segments` segments, joined in their order; "" for a segment without any.

    The shape of `segment_ids` is the beginning of that of `inputs`: one segment for each element, row or larger part.

    Examples:
        >>> await session.run(af.strings.unsorted_segment_join(["a", "b", "c"], [0, 1, 0], 2, "-"))
        array([b'a-c', b'b'], dtype=object)
    """


def unicode_transcode(
    input: TensorLike,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Each string in another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    Malformed bytes become the replacement character, or fail (`errors="strict"`), or are left out ("ignore").

    Examples:
        >>> await session.run(af.strings.unicode_transcode(["hé"], "UTF-8", "UTF-16-BE"))
        array([b'\\x00h\\x00\\xe9'], dtype=object)
    """

