"""Samples of values as text and as messages."""

import numpy as np

from aioflow.kernels.control.debugging import timestamp
from aioflow.kernels.data.tensor_messages import parse_tensor, serialize_tensor
from aioflow.kernels.text import text_pieces, unicode
from aioflow.kernels.text.string_format import print_text, string_format

from . import sample

NUMBERS = np.array([[1.5, -2.0], [0.25, 8.0]])
sample("serialize_tensor", lambda x: parse_tensor(serialize_tensor(x), x.dtype), NUMBERS, reference=lambda x: x)
sample("parse_tensor", lambda x: parse_tensor(serialize_tensor(x), x.dtype), NUMBERS, reference=lambda x: x)
sample(
    "string_format", lambda x, y: string_format([x, y], "{} and {}"), NUMBERS, np.array(3),
    reference=lambda x, y: np.array(b"[[1.5 -2]\n [0.25 8]] and 3", object),
)  # fmt: skip
sample("print_text", print_text, np.array(b"printed", object))
sample("timestamp", timestamp)

WORDS = np.array([b"a", b"\xc3\xa9b", b""], object)
sample("unicode_transcode", lambda x: unicode.unicode_transcode(x, "UTF-8", "UTF-16-BE"), WORDS)
sample("unicode_decode", lambda x: unicode.unicode_decode(x, "UTF-8").values, WORDS,
       reference=lambda x: np.int32([97, 233, 98]))  # fmt: skip
sample("unicode_encode", lambda x: unicode.unicode_encode(x, "UTF-8"), np.int32([[97, 233], [98, 99]]),
       reference=lambda x: np.array([b"a\xc3\xa9", b"bc"], object))  # fmt: skip
sample("unicode_encode_rows", lambda x: unicode.unicode_encode(unicode.unicode_decode(x, "UTF-8"), "UTF-8"), WORDS,
       reference=lambda x: x)  # fmt: skip
sample("string_ngrams", lambda x: text_pieces.ngrams(x, 2), WORDS,
       reference=lambda x: np.array([b"a \xc3\xa9b", b"\xc3\xa9b "], object))  # fmt: skip
sample("unsorted_segment_join", lambda x: text_pieces.unsorted_segment_join(x, [1, 0, 1], 2, "-"), WORDS,
       reference=lambda x: np.array([b"\xc3\xa9b", b"a-"], object))  # fmt: skip
