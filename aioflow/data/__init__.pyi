"""Datasets: async pipelines of elements as values, from arrays, generators and files, with the names of `tf.data`.

Input: arrays, generators, files, and functions of the user. Output: `async for` over NumPy values, whose position can
be saved, iterators in graphs, and feeds of the queues of a session. `dataset` is the face; each other module holds the
stages of one kind. A stage is a description, `stage` says how a cursor runs it. No module knows executors, plans or
kernels, except the decoders of values and of pictures, and the ops of iterators and tables.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.data import experimental as experimental
from aioflow.data.checks import AUTOTUNE as AUTOTUNE
from aioflow.data.checks import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from aioflow.data.checks import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from aioflow.data.dataset import Dataset as Dataset
from aioflow.data.feeding import NumpyIterator as NumpyIterator
from aioflow.data.file_datasets import CsvDataset as CsvDataset
from aioflow.data.file_datasets import FixedLengthRecordDataset as FixedLengthRecordDataset
from aioflow.data.file_datasets import TFRecordDataset as TFRecordDataset
from aioflow.data.file_datasets import TextLineDataset as TextLineDataset
from aioflow.data.graph_iterator import Iterator as Iterator
from aioflow.data.graph_iterator import make_initializable_iterator as make_initializable_iterator
from aioflow.data.graph_iterator import make_one_shot_iterator as make_one_shot_iterator
from aioflow.data.image_files import ImageDataset as ImageDataset
from aioflow.data.image_files import image_dataset_from_directory as image_dataset_from_directory
from aioflow.data.iterator import DatasetIterator as DatasetIterator
from aioflow.data.options import Options as Options
from aioflow.data.options import ThreadingOptions as ThreadingOptions
from aioflow.data.structures import DatasetSpec as DatasetSpec
from aioflow.data.structures import get_output_classes as get_output_classes
from aioflow.data.structures import get_output_shapes as get_output_shapes
from aioflow.data.structures import get_output_types as get_output_types

__all__ = ["AUTOTUNE", "CsvDataset", "Dataset", "DatasetIterator", "DatasetSpec", "FixedLengthRecordDataset",
    "INFINITE_CARDINALITY", "ImageDataset", "Iterator", "NumpyIterator", "Options", "TFRecordDataset",
    "TextLineDataset", "ThreadingOptions", "UNKNOWN_CARDINALITY", "experimental", "get_output_classes",
    "get_output_shapes", "get_output_types", "image_dataset_from_directory", "make_initializable_iterator",
    "make_one_shot_iterator"]
