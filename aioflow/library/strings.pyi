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

__all__ = ["as_string", "join", "length", "lower", "reduce_join", "regex_full_match", "regex_replace", "split", "strip",
    "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong", "to_number", "upper"]
