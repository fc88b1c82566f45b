"""Every op that takes strings is measured with a million of them, or it is said here why that is not needed."""

import importlib
import pkgutil

import numpy as np
import pytest

import aioflow as af
from benchmarks import gil
from tests.kernels import samples

for module in pkgutil.iter_modules(samples.__path__):
    importlib.import_module(f"tests.kernels.samples.{module.name}")

VIEWS = (
    "broadcast_to diag_part dynamic_strided_slice ensure_shape enter exit expand_dims identity_n is_jpeg "
    "matrix_transpose merge next_iteration placeholder_with_default prevent_gradient rank same_shape shape_n "
    "squeeze stop_gradient swap_in swap_out switch"
)
"""They pass the array on, or a view of it."""
GRADIENTS = (
    "boolean_mask_grad dynamic_strided_slice_grad gather_grad gather_segments mirror_pad_grad on_diagonal ones_like "
    "per_row slice_grad sparse_spread strided_slice_grad tensor_list_concat tensor_list_gather"
)
"""They occur only in gradients, which strings do not have, or in functions that refuse strings."""
SINGLE = (
    "decode_and_crop_jpeg decode_bmp decode_gif decode_image decode_jpeg decode_npy decode_png extract_jpeg_shape "
    "lossy_decode merge_summary parse_sequence_example parse_tensor print_text serialize_tensor string_format "
    "tensor_summary"
)
"""They take few strings, each of them large."""
ASSERTIONS = "assert assert_equal assert_none_equal assert_rank assert_rank_at_least assert_rank_in"
"""They compare by `equal`, and print a few elements."""
OTHERS = (
    "argsort decode_base64 decode_compressed decode_wav decode_webp fingerprint not_equal permute reorder "
    "segment_edges segment_sizes set_size sparse_cross sparse_cross_hashed stateless_shuffle string_add "
    "string_ngrams string_to_hash_bucket string_to_hash_bucket_strong tensor_list_insert tensor_list_put "
    "tensor_list_put_pieces tensor_list_put_rows unicode_decode unicode_encode_rows unicode_transcode "
    "unsorted_segment_join"
)
"""Each has the code of an op that is measured, such as `encode_base64` and `string_to_hash_bucket_fast`."""
PLANNED = "channel_shuffle"
"""Plans make it of operations on images."""
LEFT_OUT = {name for names in (VIEWS, GRADIENTS, SINGLE, ASSERTIONS, OTHERS, PLANNED) for name in names.split()}


def taking_strings():
    """The ops of which a sample can be built on strings in place of numbers."""
    return {
        name
        for name, calls in samples.SAMPLES.items()
        for call in calls
        if any(takes(name, call, dtype) for dtype in "fiO")
    }


def takes(name, call, kind):
    values = [np.asarray(value) for value in call.inputs]
    chosen = [value.dtype.kind == kind for value in values]
    each = [[place == only for place in range(len(values))] for only, use in enumerate(chosen) if use]
    return any(built(name, call, values, texts) for texts in [chosen, *each]) if any(chosen) else False


def built(name, call, values, texts):
    with af.Graph().as_default() as graph:
        try:
            call.build(*[
                af.placeholder(af.string if text else af.as_dtype(value.dtype), value.shape)
                for value, text in zip(values, texts, strict=True)
            ])  # fmt: skip
        except (TypeError, ValueError):
            return False
        return name in strings_of(graph)


def strings_of(graph):
    operations = graph.get_operations()
    return {op.type for op in operations for each in (op.inputs, op.outputs) for t in each if t.dtype is af.string}


def measured():
    found = set()
    for case in gil.cases(af, 100).values():
        with af.Graph().as_default() as graph:
            case.build(*[af.placeholder(af.as_dtype(np.asarray(v).dtype), [None] * np.ndim(v)) for v in case.feeds])
        found |= strings_of(graph)
    return found


@pytest.mark.slow
def test_every_op_that_takes_strings_is_measured_or_needs_none():
    assert taking_strings() - measured() == LEFT_OUT
