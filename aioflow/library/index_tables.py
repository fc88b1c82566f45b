"""Tables from words to numbers and back, from a vocabulary in a file or a tensor."""

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.ranges import range
from aioflow.kernels.array.shapes import size
from aioflow.kernels.math.casting import cast
from aioflow.library.lookup_tables import StaticHashTable
from aioflow.library.resource_handle import outside
from aioflow.library.table_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from aioflow.library.vocabulary_tables import FastHashSpec, HasherSpec, IdTableWithHashBuckets
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype

WordTable = StaticHashTable | IdTableWithHashBuckets


@transactional
def index_table_from_file(
    vocabulary_file: TensorLike | None = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: DTypeLike = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> WordTable:
    r"""Return a table from the words of a file to their numbers, by default a word a line, numbered from 0 on.

        table = af.lookup.index_table_from_file("words.txt", num_oov_buckets=1)

    Other words have the number of a bucket after all words; without buckets the default value.

    Args:
        vocabulary_file: the path, or URL, of the file.
        num_oov_buckets: the number of buckets.
        vocab_size: the number of words; all lines by default.
        default_value: the number of other words, if there are no buckets.
        hasher_spec: how words are hashed into buckets.
        key_dtype: the dtype of the words.
        name: the name of the table.
        key_column_index: the column of the words, from 0 on, or a `TextFileIndex`.
        value_column_index: the column of the numbers, or a `TextFileIndex`.
        delimiter: the character between columns.

    Raises:
        ValueError, TypeError: the arguments contradict each other.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("words.txt").write_text("a\nb\n")
        >>> table = af.lookup.index_table_from_file("words.txt")
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 1, -1])
    """
    if vocabulary_file is None:
        raise ValueError("a vocabulary file is needed")
    key = as_dtype(key_dtype)
    own = dtypes.int64 if key in dtypes.INTEGER else key
    content = TextFileInitializer(
        vocabulary_file, own, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter
    )
    return word_table(content, default_value, num_oov_buckets, hasher_spec, name, key)


@transactional
def index_table_from_tensor(
    vocabulary_list: TensorLike,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: DTypeLike = dtypes.string,
    name: str | None = None,
) -> WordTable:
    """Return a table from the words in a vector to their positions in it. See `index_table_from_file`.

    Examples:
        >>> table = af.lookup.index_table_from_tensor(["a", "b"])
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 1, -1])
    """
    if vocabulary_list is None:
        raise ValueError("a vocabulary is needed")
    key = as_dtype(dtype)
    with outside():
        words = convert_to_tensor(vocabulary_list, None if key in dtypes.INTEGER else key)
        if (words.dtype in dtypes.INTEGER) != (key in dtypes.INTEGER):
            raise TypeError(f"the vocabulary is {words.dtype.name}, and its words are {key.name}")
        words = cast(words, dtypes.int64) if key in dtypes.INTEGER else words
        content = KeyValueTensorInitializer(words, _numbers(words))
    return word_table(content, default_value, num_oov_buckets, hasher_spec, name, key)


def word_table(
    content: TableInitializerBase, default_value: int, buckets: int, hasher: HasherSpec, name: str | None, key: DType
) -> WordTable:
    """Return a table of words and their numbers, with buckets for other words."""
    if buckets < 0:
        raise ValueError(f"num_oov_buckets is {buckets}, and must be at least 0")
    table = StaticHashTable(content, -1 if buckets else default_value, name)  # no word has -1, and buckets need that
    if not buckets and key is table.key_dtype:
        return table
    return IdTableWithHashBuckets(table, buckets, hasher, name, key)


def _numbers(words: Tensor) -> Tensor:
    return range(cast(size(words), dtypes.int64))


@transactional
def index_to_string_table_from_file(
    vocabulary_file: TensorLike,
    vocab_size: int | None = None,
    default_value: str | bytes = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:
    r"""Return a table from numbers to the words of a file, by default a word a line, numbered from 0 on.

    Args:
        vocabulary_file: the path, or URL, of the file.
        vocab_size: the number of words; all lines by default.
        default_value: the word for other numbers.
        name: the name of the table.
        key_column_index: the column of the numbers, from 0 on, or a `TextFileIndex`.
        value_column_index: the column of the words, or a `TextFileIndex`.
        delimiter: the character between columns.

    Raises:
        ValueError: the arguments contradict each other.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("words.txt").write_text("a\nb\n")
        >>> table = af.lookup.index_to_string_table_from_file("words.txt")
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant([1, 5], af.int64)))
        array([b'b', b'UNK'], dtype=object)
    """
    content = TextFileStringTableInitializer(
        vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter
    )
    return StaticHashTable(content, default_value, name)


@transactional
def index_to_string_table_from_tensor(
    vocabulary_list: TensorLike, default_value: str | bytes = "UNK", name: str | None = None
) -> StaticHashTable:
    """Return a table from the positions in a vector to the words in it, and `default_value` for other numbers.

    Examples:
        >>> table = af.lookup.index_to_string_table_from_tensor(["a", "b"])
        >>> await session.run(af.tables_initializer())
        >>> await session.run(table.lookup(af.constant([1, 5], af.int64)))
        array([b'b', b'UNK'], dtype=object)
    """
    with outside():
        words = convert_to_tensor(vocabulary_list, dtypes.string)
        content = KeyValueTensorInitializer(_numbers(words), words)
    return StaticHashTable(content, default_value, name)
