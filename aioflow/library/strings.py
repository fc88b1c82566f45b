"""`af.strings`: texts, under the names TensorFlow has for them."""

from aioflow.kernels.text.string_hash import (
    string_to_hash_bucket as to_hash_bucket,
)
from aioflow.kernels.text.string_hash import (
    string_to_hash_bucket_fast as to_hash_bucket_fast,
)
from aioflow.kernels.text.string_hash import (
    string_to_hash_bucket_strong as to_hash_bucket_strong,
)
from aioflow.kernels.text.string_split import split
from aioflow.kernels.text.strings import (
    as_string,
    reduce_join,
    regex_full_match,
    regex_replace,
    substr,
)
from aioflow.kernels.text.strings import string_join as join
from aioflow.kernels.text.strings import string_length as length
from aioflow.kernels.text.strings import string_lower as lower
from aioflow.kernels.text.strings import string_strip as strip
from aioflow.kernels.text.strings import string_to_number as to_number
from aioflow.kernels.text.strings import string_upper as upper

__all__ = [
    "as_string", "join", "length", "lower", "reduce_join", "regex_full_match", "regex_replace", "split", "strip",
    "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong", "to_number", "upper",
]  # fmt: skip
