"""`af.lookup`: lookup tables, under the names of TensorFlow's `lookup` and of its older `contrib.lookup`."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library import lookup_experimental as experimental
from aioflow.library.index_tables import index_table_from_file as index_table_from_file
from aioflow.library.index_tables import index_table_from_tensor as index_table_from_tensor
from aioflow.library.index_tables import index_to_string_table_from_file as index_to_string_table_from_file
from aioflow.library.index_tables import index_to_string_table_from_tensor as index_to_string_table_from_tensor
from aioflow.library.lookup_tables import LookupInterface as LookupInterface
from aioflow.library.lookup_tables import StaticHashTable as HashTable
from aioflow.library.lookup_tables import StaticHashTable as StaticHashTable
from aioflow.library.mutable_tables import DenseHashTable as MutableDenseHashTable
from aioflow.library.mutable_tables import MutableHashTable as MutableHashTable
from aioflow.library.table_initializers import KeyValueTensorInitializer as KeyValueTensorInitializer
from aioflow.library.table_initializers import TableInitializerBase as TableInitializerBase
from aioflow.library.table_initializers import TextFileIdTableInitializer as TextFileIdTableInitializer
from aioflow.library.table_initializers import TextFileIndex as TextFileIndex
from aioflow.library.table_initializers import TextFileInitializer as TextFileInitializer
from aioflow.library.table_initializers import TextFileStringTableInitializer as TextFileStringTableInitializer
from aioflow.library.vocabulary_tables import FastHashSpec as FastHashSpec
from aioflow.library.vocabulary_tables import HasherSpec as HasherSpec
from aioflow.library.vocabulary_tables import IdTableWithHashBuckets as IdTableWithHashBuckets
from aioflow.library.vocabulary_tables import StaticVocabularyTable as StaticVocabularyTable
from aioflow.library.vocabulary_tables import StrongHashSpec as StrongHashSpec

__all__ = ["FastHashSpec", "HashTable", "HasherSpec", "IdTableWithHashBuckets", "KeyValueTensorInitializer",
    "LookupInterface", "MutableDenseHashTable", "MutableHashTable", "StaticHashTable", "StaticVocabularyTable",
    "StrongHashSpec", "TableInitializerBase", "TextFileIdTableInitializer", "TextFileIndex", "TextFileInitializer",
    "TextFileStringTableInitializer", "experimental", "index_table_from_file", "index_table_from_tensor",
    "index_to_string_table_from_file", "index_to_string_table_from_tensor"]
