"""`af.io`: files, records and parsers under TensorFlow's names."""

from aioflow.files.tfrecord import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator
from aioflow.kernels.data.csv import decode_csv
from aioflow.kernels.data.example_wire import make_example, make_sequence_example
from aioflow.kernels.data.json_examples import decode_json_example
from aioflow.kernels.data.npy import decode_compressed, decode_npy
from aioflow.kernels.data.raw import decode_raw
from aioflow.kernels.image.decode_image import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)
from aioflow.kernels.state.readers import matching_files, read_file, write_file
from aioflow.kernels.text.string_hash import decode_base64, encode_base64
from aioflow.library.decoding import decode_image
from aioflow.library.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from aioflow.library.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue

__all__ = [
    "FIFOQueue", "FixedLenFeature", "FixedLenSequenceFeature", "PaddingFIFOQueue", "PriorityQueue", "QueueBase",
    "RandomShuffleQueue", "SparseFeature", "TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter",
    "VarLenFeature", "decode_and_crop_jpeg", "decode_base64", "decode_bmp", "decode_compressed", "decode_csv",
    "decode_gif", "decode_image", "decode_jpeg", "decode_json_example", "decode_npy", "decode_png", "decode_raw",
    "encode_base64", "encode_jpeg", "encode_png", "extract_jpeg_shape", "is_jpeg", "make_example",
    "make_sequence_example", "matching_files", "parse_example", "parse_sequence_example",
    "parse_single_example", "parse_single_sequence_example", "read_file", "tf_record_iterator", "write_file",
]  # fmt: skip
