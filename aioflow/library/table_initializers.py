"""The contents of lookup tables: from tensors, or from the lines of a text file."""

from typing import Final, Protocol

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import lookup_tables as ops
from aioflow.library.control import group
from aioflow.library.resource_handle import outside
from aioflow.resources import vocabulary_files
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype


class Initialized(Protocol):
    """A table that an initializer fills."""

    @property
    def resource_handle(self) -> Tensor:
        """Its handle."""


class TableInitializerBase:
    """The common part of contents of tables. Not created directly.

    Args:
        key_dtype: the dtype of the keys.
        value_dtype: the dtype of the values.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a"], [1])
        >>> isinstance(init, af.lookup.TableInitializerBase)
        True
    """

    def __init__(self, key_dtype: DTypeLike, value_dtype: DTypeLike) -> None:
        self._key_dtype: Final = as_dtype(key_dtype)
        self._value_dtype: Final = as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return self._value_dtype

    def initialize(self, table: Initialized) -> Operation:
        """Return the operation that fills a table. `af.tables_initializer()` runs it, too."""
        handle = table.resource_handle
        with outside(), handle.graph.colocate_with(handle, ignore_existing=True):
            made = self._fill(handle)
            handle.graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        return made

    def _fill(self, handle: Tensor) -> Operation:
        raise NotImplementedError(f"{type(self).__name__} does not say how a table is filled")


class KeyValueTensorInitializer(TableInitializerBase):
    """The keys and values in two vectors of equal length.

        table = af.lookup.StaticHashTable(af.lookup.KeyValueTensorInitializer(["red", "blue"], [1, 2]), -1)

    The run of the initializer fails with FailedPreconditionError if a key has two values.

    Args:
        keys: the keys, strings or integers.
        values: the value of each key.
        key_dtype: the dtype of the keys, that of `keys` by default.
        value_dtype: the dtype of the values, that of `values` by default; integers are int32.
        name: the name of the operation.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> table = af.lookup.HashTable(init, default_value=-1)
        >>> await session.run(table.initializer)
        >>> await session.run(table.size())
        np.int64(2)
    """

    @transactional
    def __init__(
        self,
        keys: TensorLike,
        values: TensorLike,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        with outside():
            self._keys: Final = convert_to_tensor(keys, key_dtype, name="keys")
            self._values: Final = convert_to_tensor(values, value_dtype, name="values")
        self._name: Final = name or "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def _fill(self, handle: Tensor) -> Operation:
        return ops.initialize_table(handle, self._keys, self._values, name=self._name)


class TextFileIndex:
    """The parts of a line besides its columns: the whole line, or its number.

    Examples:
        >>> af.lookup.TextFileIndex.LINE_NUMBER
        -1
    """

    WHOLE_LINE: Final = vocabulary_files.WHOLE_LINE
    LINE_NUMBER: Final = vocabulary_files.LINE_NUMBER


class TextFileInitializer(TableInitializerBase):
    r"""A key and a value for each line of a text file, which the task of the table reads when the initializer runs.

        words = af.lookup.TextFileInitializer(
            "words.txt", af.string, af.lookup.TextFileIndex.WHOLE_LINE, af.int64, af.lookup.TextFileIndex.LINE_NUMBER
        )

    The run of the initializer fails with InvalidArgumentError if a line is empty, lacks a column, or has no number
    where one is needed, or if there are fewer than `vocab_size` lines; with FailedPreconditionError if a key has two
    values; with NotFoundError if there is no such file. `af.saved_model.save` puts the file beside the model.

    Args:
        filename: the path, or URL, of the file.
        key_dtype: the dtype of the keys.
        key_index: the column of the keys, from 0 on, or a `TextFileIndex`.
        value_dtype: the dtype of the values.
        value_index: the column of the values, or a `TextFileIndex`.
        vocab_size: the number of lines to read; all by default.
        delimiter: the character between columns.
        name: the name of the operation.
        value_index_offset: the number of the first line.

    Raises:
        ValueError: the arguments contradict each other.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("pairs.txt").write_text("a\t1\nb\t2\n")
        >>> init = af.lookup.TextFileInitializer("pairs.txt", af.string, 0, af.int64, 1)
        >>> table = af.lookup.HashTable(init, -1)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["b"])))
        array([2])
    """

    @transactional
    def __init__(
        self,
        filename: TensorLike,
        key_dtype: DTypeLike,
        key_index: int,
        value_dtype: DTypeLike,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        if filename is None or (isinstance(filename, str) and not filename):
            raise ValueError("a vocabulary file is needed, and its name is empty")
        with outside():
            self._file: Final = convert_to_tensor(filename, dtypes.string, name="asset_filepath")
        lines = -1 if vocab_size is None else vocab_size
        self._reading: Final = key_index, value_index, lines, delimiter, value_index_offset
        self._name: Final = name or "text_file_init"

    def _fill(self, handle: Tensor) -> Operation:
        made = ops.initialize_table_from_text_file(handle, self._file, *self._reading, name=self._name)
        if constant_value(self._file) is not None:
            handle.graph.add_to_collection(GraphKeys.ASSET_FILEPATHS, self._file)
        return made


class TextFileStringTableInitializer(TextFileInitializer):
    r"""The strings of a text file, by default its lines, by the numbers of the lines. See `TextFileInitializer`.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("words.txt").write_text("a\nb\n")
        >>> table = af.lookup.HashTable(af.lookup.TextFileStringTableInitializer("words.txt"), "?")
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant([1, 7], af.int64)))
        array([b'b', b'?'], dtype=object)
    """

    def __init__(
        self,
        filename: TensorLike,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        super().__init__(
            filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter, name
        )


class TextFileIdTableInitializer(TextFileInitializer):
    r"""The numbers in a text file, by default of its lines, by strings in the lines. See `TextFileInitializer`.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("words.txt").write_text("a\nb\n")
        >>> table = af.lookup.HashTable(af.lookup.TextFileIdTableInitializer("words.txt"), -1)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["b"])))
        array([1])
    """

    def __init__(
        self,
        filename: TensorLike,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: DTypeLike = dtypes.string,
    ) -> None:
        super().__init__(
            filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter, name
        )


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return an operation that initializes all tables of the default graph.

    Examples:
        >>> af.initialize_all_tables().type
        'no_op'
    """
    return group(*get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


initialize_all_tables = tables_initializer
