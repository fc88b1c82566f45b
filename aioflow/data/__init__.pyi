"""Datasets: async pipelines of elements as values, from arrays, generators and files, with the names of `tf.data`.

Input: arrays, generators, files, and functions of the user. Output: `async for` over NumPy values, whose position can
be saved, and feeds of the queues of a session. `dataset` is the face; each other module holds the stages of one kind.
A stage is a description, `stage` says how a cursor runs it. No module knows executors, plans or kernels, except the
decoders of comma-separated values and of pictures.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.data.checks import AUTOTUNE as AUTOTUNE
from aioflow.data.checks import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from aioflow.data.checks import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from aioflow.data.dataset import Dataset as Dataset
from aioflow.data.file_datasets import CsvDataset as CsvDataset
from aioflow.data.file_datasets import FixedLengthRecordDataset as FixedLengthRecordDataset
from aioflow.data.file_datasets import TFRecordDataset as TFRecordDataset
from aioflow.data.file_datasets import TextLineDataset as TextLineDataset
from aioflow.data.image_files import ImageDataset as ImageDataset
from aioflow.data.image_files import image_dataset_from_directory as image_dataset_from_directory
from aioflow.data.iterator import DatasetIterator as DatasetIterator

__all__ = ["AUTOTUNE", "CsvDataset", "Dataset", "DatasetIterator", "FixedLengthRecordDataset", "INFINITE_CARDINALITY",
    "ImageDataset", "TFRecordDataset", "TextLineDataset", "UNKNOWN_CARDINALITY", "image_dataset_from_directory"]
