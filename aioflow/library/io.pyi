"""`af.io`: files, records and parsers under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import decode_base64 as decode_base64
from aioflow import decode_compressed as decode_compressed
from aioflow import decode_csv as decode_csv
from aioflow import decode_json_example as decode_json_example
from aioflow import decode_npy as decode_npy
from aioflow import encode_base64 as encode_base64
from aioflow import matching_files as matching_files
from aioflow import parse_tensor as parse_tensor
from aioflow import read_file as read_file
from aioflow import serialize_tensor as serialize_tensor
from aioflow import write_file as write_file
from aioflow.files.graph_files import write_graph as write_graph
from aioflow.files.tfrecord import TFRecordWriter as TFRecordWriter
from aioflow.files.tfrecord import tf_record_iterator as tf_record_iterator
from aioflow.files.tfrecord_options import TFRecordCompressionType as TFRecordCompressionType
from aioflow.files.tfrecord_options import TFRecordOptions as TFRecordOptions
from aioflow.kernels.data.decoders import decode_raw as decode_raw
from aioflow.kernels.data.example_wire import make_example as make_example
from aioflow.kernels.data.example_wire import make_sequence_example as make_sequence_example
from aioflow.library import io_gfile as gfile
from aioflow.library.decoding import decode_image as decode_image
from aioflow.library.image import decode_and_crop_jpeg as decode_and_crop_jpeg
from aioflow.library.image import decode_bmp as decode_bmp
from aioflow.library.image import decode_gif as decode_gif
from aioflow.library.image import decode_jpeg as decode_jpeg
from aioflow.library.image import decode_png as decode_png
from aioflow.library.image import decode_webp as decode_webp
from aioflow.library.image import encode_jpeg as encode_jpeg
from aioflow.library.image import encode_png as encode_png
from aioflow.library.image import extract_jpeg_shape as extract_jpeg_shape
from aioflow.library.image import is_jpeg as is_jpeg
from aioflow.library.parsing import FixedLenFeature as FixedLenFeature
from aioflow.library.parsing import FixedLenSequenceFeature as FixedLenSequenceFeature
from aioflow.library.parsing import SparseFeature as SparseFeature
from aioflow.library.parsing import VarLenFeature as VarLenFeature
from aioflow.library.parsing import parse_example as parse_example
from aioflow.library.parsing import parse_sequence_example as parse_sequence_example
from aioflow.library.parsing import parse_single_example as parse_single_example
from aioflow.library.parsing import parse_single_sequence_example as parse_single_sequence_example
from aioflow.library.queues import FIFOQueue as FIFOQueue
from aioflow.library.queues import PaddingFIFOQueue as PaddingFIFOQueue
from aioflow.library.queues import PriorityQueue as PriorityQueue
from aioflow.library.queues import QueueBase as QueueBase
from aioflow.library.queues import RandomShuffleQueue as RandomShuffleQueue
from aioflow.library.ragged.feature import RaggedFeature as RaggedFeature
from aioflow.library.sparse import deserialize_many_sparse as deserialize_many_sparse
from aioflow.library.sparse import serialize_many_sparse as serialize_many_sparse
from aioflow.library.sparse import serialize_sparse as serialize_sparse
from aioflow.train.input import match_filenames_once as match_filenames_once

__all__ = ["FIFOQueue", "FixedLenFeature", "FixedLenSequenceFeature", "PaddingFIFOQueue", "PriorityQueue", "QueueBase",
    "RaggedFeature", "RandomShuffleQueue", "SparseFeature", "TFRecordCompressionType", "TFRecordOptions",
    "TFRecordWriter", "VarLenFeature", "decode_and_crop_jpeg", "decode_base64", "decode_bmp", "decode_compressed",
    "decode_csv", "decode_gif", "decode_image", "decode_jpeg", "decode_json_example", "decode_npy", "decode_png",
    "decode_raw", "decode_webp", "deserialize_many_sparse", "encode_base64", "encode_jpeg", "encode_png",
    "extract_jpeg_shape", "gfile", "is_jpeg", "make_example", "make_sequence_example", "match_filenames_once",
    "matching_files", "parse_example", "parse_sequence_example", "parse_single_example",
    "parse_single_sequence_example", "parse_tensor", "read_file", "serialize_many_sparse", "serialize_sparse",
    "serialize_tensor", "tf_record_iterator", "write_file", "write_graph"]
