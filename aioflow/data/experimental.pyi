"""`af.data.experimental`: functions for `Dataset.apply`, further datasets, and what TensorFlow has under this name."""

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
from aioflow.data.csv_batches import make_csv_dataset as make_csv_dataset
from aioflow.data.example_datasets import make_batched_features_dataset as make_batched_features_dataset
from aioflow.data.example_datasets import parse_example_dataset as parse_example_dataset
from aioflow.data.file_datasets import CsvDataset as CsvDataset
from aioflow.data.graph_iterator import get_next_as_optional as get_next_as_optional
from aioflow.data.made_datasets import Counter as Counter
from aioflow.data.made_datasets import RandomDataset as RandomDataset
from aioflow.data.made_datasets import TFRecordWriter as TFRecordWriter
from aioflow.data.made_datasets import cardinality as cardinality
from aioflow.data.made_datasets import choose_from_datasets as choose_from_datasets
from aioflow.data.made_datasets import from_list as from_list
from aioflow.data.made_datasets import get_single_element as get_single_element
from aioflow.data.made_datasets import sample_from_datasets as sample_from_datasets
from aioflow.data.optional import Optional as Optional
from aioflow.data.optional import OptionalSpec as OptionalStructure
from aioflow.data.options import AutotuneAlgorithm as AutotuneAlgorithm
from aioflow.data.options import AutotuneOptions as AutotuneOptions
from aioflow.data.options import OptimizationOptions as OptimizationOptions
from aioflow.data.options import ThreadingOptions as ThreadingOptions
from aioflow.data.reducing import Reducer as Reducer
from aioflow.data.sql_dataset import SqlDataset as SqlDataset
from aioflow.data.structures import DatasetSpec as DatasetStructure
from aioflow.data.structures import RaggedTensorStructure as RaggedTensorStructure
from aioflow.data.structures import SparseTensorStructure as SparseTensorStructure
from aioflow.data.structures import TensorArrayStructure as TensorArrayStructure
from aioflow.data.structures import TensorStructure as TensorStructure
from aioflow.data.structures import get_structure as get_structure
from aioflow.data.tables import DatasetInitializer as DatasetInitializer
from aioflow.data.tables import index_table_from_dataset as index_table_from_dataset
from aioflow.data.tables import table_from_dataset as table_from_dataset
from aioflow.data.transformations import assert_cardinality as assert_cardinality
from aioflow.data.transformations import bucket_by_sequence_length as bucket_by_sequence_length
from aioflow.data.transformations import copy_to_device as copy_to_device
from aioflow.data.transformations import dense_to_ragged_batch as dense_to_ragged_batch
from aioflow.data.transformations import dense_to_sparse_batch as dense_to_sparse_batch
from aioflow.data.transformations import enumerate_dataset as enumerate_dataset
from aioflow.data.transformations import group_by_reducer as group_by_reducer
from aioflow.data.transformations import group_by_window as group_by_window
from aioflow.data.transformations import ignore_errors as ignore_errors
from aioflow.data.transformations import map_and_batch as map_and_batch
from aioflow.data.transformations import map_and_batch as map_and_batch_with_legacy_function
from aioflow.data.transformations import pad_to_cardinality as pad_to_cardinality
from aioflow.data.transformations import parallel_interleave as parallel_interleave
from aioflow.data.transformations import prefetch_to_device as prefetch_to_device
from aioflow.data.transformations import rejection_resample as rejection_resample
from aioflow.data.transformations import scan as scan
from aioflow.data.transformations import shuffle_and_repeat as shuffle_and_repeat
from aioflow.data.transformations import snapshot as snapshot
from aioflow.data.transformations import take_while as take_while
from aioflow.data.transformations import unbatch as unbatch
from aioflow.data.transformations import unique as unique
from aioflow.library.type_specs import TypeSpec as Structure

__all__ = ["AUTOTUNE", "AutotuneAlgorithm", "AutotuneOptions", "Counter", "CsvDataset", "DatasetInitializer",
    "DatasetStructure", "INFINITE_CARDINALITY", "OptimizationOptions", "Optional", "OptionalStructure",
    "RaggedTensorStructure", "RandomDataset", "Reducer", "SparseTensorStructure", "SqlDataset", "Structure",
    "TFRecordWriter", "TensorArrayStructure", "TensorStructure", "ThreadingOptions", "UNKNOWN_CARDINALITY",
    "assert_cardinality", "bucket_by_sequence_length", "cardinality", "choose_from_datasets", "copy_to_device",
    "dense_to_ragged_batch", "dense_to_sparse_batch", "enumerate_dataset", "from_list", "get_next_as_optional",
    "get_single_element", "get_structure", "group_by_reducer", "group_by_window", "ignore_errors",
    "index_table_from_dataset", "make_batched_features_dataset", "make_csv_dataset", "map_and_batch",
    "map_and_batch_with_legacy_function", "pad_to_cardinality", "parallel_interleave", "parse_example_dataset",
    "prefetch_to_device", "rejection_resample", "sample_from_datasets", "scan", "shuffle_and_repeat", "snapshot",
    "table_from_dataset", "take_while", "unbatch", "unique"]
