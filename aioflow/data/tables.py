"""Lookup tables whose keys and values are the elements of a dataset."""

from typing import Any, Final

import numpy as np

from aioflow.data.calls import UserFunction
from aioflow.data.checks import finite, positive, stage_of
from aioflow.data.dataset import Dataset
from aioflow.data.graph_iterator import DatasetSource
from aioflow.data.structures import components_of, get_structure
from aioflow.data.transform import Map
from aioflow.graph.building import transactional
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state.iterators import initialize_table_from_dataset
from aioflow.library.index_tables import WordTable, word_table
from aioflow.library.table_initializers import TableInitializerBase
from aioflow.library.vocabulary_tables import FastHashSpec, HasherSpec
from aioflow.tensors.dtypes import INTEGER, DTypeLike, Spec, as_dtype, int64, string


class DatasetInitializer(TableInitializerBase):
    """The keys and values in a dataset of pairs, which the initializer of the table takes.

    The run of the initializer fails with FailedPreconditionError if a key has two values. A graph with a dataset runs
    in the process that built it.

    Args:
        dataset: the dataset.

    Raises:
        ValueError: the dataset never ends, or a function decides its dtypes.
        TypeError: its elements are no pairs.

    Examples:
        >>> pairs = af.data.Dataset.from_tensor_slices((["a", "b"], [1, 2]))
        >>> table = af.lookup.HashTable(af.data.experimental.DatasetInitializer(pairs), -1)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 2, -1], dtype=int32)
    """

    def __init__(self, dataset: Dataset) -> None:
        finite(stage_of(dataset), "a table")
        kinds, _ = components_of(get_structure(dataset))
        if len(kinds) != 2:
            raise TypeError(f"a table needs a dataset of pairs of a key and a value, not of {dataset.element_spec}")
        super().__init__(*kinds)
        self._source: Final = DatasetSource(dataset)

    def _fill(self, handle: Tensor) -> Operation:
        return initialize_table_from_dataset(handle, self._source, name="dataset_init")


@transactional
def table_from_dataset(
    dataset: Dataset | None = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: DTypeLike = string,
    name: str | None = None,
) -> WordTable:
    """Return a table from the keys to the values of a dataset of pairs.

    Args:
        dataset: the dataset of pairs.
        num_oov_buckets: the number of buckets for other keys, numbered after all values, which are then their indices.
        vocab_size: the number of pairs that are taken; all by default.
        default_value: the value of other keys, if there are no buckets; -1 or empty text by default.
        hasher_spec: how other keys are hashed into buckets.
        key_dtype: the dtype of the keys.
        name: the name of the table.

    Raises:
        ValueError, TypeError: the arguments contradict each other, or a function decides the dtypes of the dataset.

    Examples:
        >>> pairs = af.data.Dataset.from_tensor_slices((["a", "b"], np.array([5, 7])))
        >>> table = af.data.experimental.table_from_dataset(pairs, default_value=0)
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([7, 0])
    """
    if dataset is None:
        raise ValueError("a dataset is needed")
    stage_of(dataset)
    some = dataset if vocab_size is None else dataset.take(positive(vocab_size, "vocab_size"))
    key = as_dtype(key_dtype)
    content = DatasetInitializer(_with_long_keys(some) if key in INTEGER else some)
    if (content.key_dtype in INTEGER) != (key in INTEGER):
        raise TypeError(f"the dataset has keys of {content.key_dtype.name}, and those of the table are {key.name}")
    if default_value is None:
        default_value = b"" if content.value_dtype is string else -1
    return word_table(content, default_value, num_oov_buckets, hasher_spec, name, key)


def index_table_from_dataset(
    dataset: Dataset | None = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: DTypeLike = string,
    name: str | None = None,
) -> WordTable:
    """Return a table from the elements of a dataset to their numbers, from 0 on. See `table_from_dataset`.

    Examples:
        >>> words = af.data.Dataset.from_tensor_slices(["a", "b"])
        >>> table = af.data.experimental.index_table_from_dataset(words)
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 1, -1])
    """
    if dataset is None:
        raise ValueError("a dataset is needed")
    pairs = Dataset.zip((dataset, Dataset.counter()))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name)


def _with_long_keys(dataset: Dataset) -> Dataset:
    """Return a dataset of pairs whose keys are int64, as in all tables of integers."""
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2 or spec[0] is None or spec[0].dtype is int64:
        return dataset
    if spec[0].dtype not in INTEGER:
        return dataset

    async def lengthen(key: Any, value: Any) -> tuple[Any, Any]:
        return np.int64(key), value

    return Dataset(Map(dataset.stage, UserFunction(lengthen, "lengthen"), (Spec(int64, spec[0].shape), spec[1])))
