"""`af.strings`: functions of strings, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.text.string_hash": (
        "to_hash_bucket=string_to_hash_bucket to_hash_bucket_fast=string_to_hash_bucket_fast "
        "to_hash_bucket_strong=string_to_hash_bucket_strong"
    ),
    "aioflow.kernels.text.splitting": "split",
    "aioflow.kernels.text.strings": (
        "as_string join=string_join length=string_length lower=string_lower reduce_join regex_full_match "
        "regex_replace strip=string_strip substr to_number=string_to_number upper=string_upper"
    ),
    "aioflow.kernels.text.text_pieces": "bytes_split ngrams unsorted_segment_join",
    "aioflow.kernels.text.unicode": (
        "unicode_decode unicode_decode_with_offsets unicode_encode unicode_split unicode_split_with_offsets "
        "unicode_transcode"
    ),
    "aioflow.library.printing": "format",
})  # fmt: skip
