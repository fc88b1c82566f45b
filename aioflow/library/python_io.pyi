"""`af.python_io`: TFRecords outside of graphs. These functions block: call them on a thread in an event loop."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.files.tfrecord import TFRecordWriter as TFRecordWriter
from aioflow.files.tfrecord import tf_record_iterator as tf_record_iterator
from aioflow.files.tfrecord_options import TFRecordCompressionType as TFRecordCompressionType
from aioflow.files.tfrecord_options import TFRecordOptions as TFRecordOptions

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]
