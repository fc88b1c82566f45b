"""Numbers of words: those of a table, and the numbers of buckets for words that the table lacks."""

from typing import Any, Final, NamedTuple, overload

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.array.constants import constant, no_op
from aioflow.kernels.array.select import where
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.text.string_hash import string_to_hash_bucket_fast, string_to_hash_bucket_strong
from aioflow.kernels.text.strings import as_string
from aioflow.library.lookup_tables import StaticHashTable
from aioflow.library.resource_handle import outside
from aioflow.library.table_initializers import TableInitializerBase
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, as_dtype
from aioflow.tensors.recursion import safe_repr


class HasherSpec(NamedTuple):
    """A hash of words into buckets. Use `FastHashSpec` or `StrongHashSpec`.

    Examples:
        >>> af.lookup.HasherSpec("fasthash", None)
        HasherSpec(hasher='fasthash', key=None)
    """

    hasher: str
    key: tuple[int, int] | None


FastHashSpec: Final = HasherSpec("fasthash", None)
"""A fast hash."""


class StrongHashSpec(HasherSpec):
    """A hash under a secret key of two integers, without which no attacker can choose a bucket.

    Examples:
        >>> af.lookup.StrongHashSpec([1, 2]).hasher
        'stronghash'
    """

    __slots__ = ()

    def __new__(cls, key: Any) -> "StrongHashSpec":
        """Return the hash under that key. TypeError if it is not two integers."""
        if not isinstance(key, (list, tuple)) or len(key) != 2 or not all(type(part) is int for part in key):
            raise TypeError(f"the key of a strong hash is two integers, not {safe_repr(key)}")
        return super().__new__(cls, "stronghash", (key[0], key[1]))


class IdTableWithHashBuckets:
    """Numbers of words: those of a table, and for all other words the number of a bucket after those.

    Args:
        table: the table, whose values count from 0; None for buckets alone.
        num_oov_buckets: the number of buckets. Without any, other words have the default value of the table.
        hasher_spec: how words are hashed into buckets.
        name: the name of the lookups.
        key_dtype: the dtype of the words: that of the table's keys by default, else string.

    Raises:
        ValueError: there is neither a table nor a bucket.
        TypeError: the words are neither strings nor integers, or cannot be converted to the table's keys.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a", "b"], af.constant([0, 1], af.int64))
        >>> table = af.lookup.IdTableWithHashBuckets(af.lookup.HashTable(init, -1), num_oov_buckets=3)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["a", "other"])))
        array([0, 4])
    """

    def __init__(
        self,
        table: StaticHashTable | None,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: DTypeLike | None = None,
    ) -> None:
        own = dtypes.string if table is None else table.key_dtype
        self._key_dtype: Final = own if key_dtype is None else as_dtype(key_dtype)
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec is af.lookup.FastHashSpec or a StrongHashSpec, not {safe_repr(hasher_spec)}")
        if num_oov_buckets < 0 or (table is None and num_oov_buckets == 0):
            raise ValueError(f"num_oov_buckets is {num_oov_buckets}, and words need at least one bucket or a table")
        if self._key_dtype not in dtypes.INTEGER | dtypes.STRING:
            raise TypeError(f"words are strings or integers, not {self._key_dtype.name}")
        if (self._key_dtype is dtypes.string) != (own is dtypes.string) and table is not None:
            raise TypeError(f"words that are {self._key_dtype.name} cannot be looked up in a table of {own.name}")
        self._table: Final = table
        self._buckets: Final = num_oov_buckets
        self._hasher: Final = hasher_spec
        self._name: Final = name or ("string_to_index" if table is None else table.name)

    @property
    def name(self) -> str:
        """The name of its lookups."""
        return self._name

    @property
    def key_dtype(self) -> DType:
        """The dtype of the words."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the numbers: int64."""
        return dtypes.int64

    @property
    def resource_handle(self) -> Tensor | None:
        """The handle of the table; None for buckets alone."""
        return None if self._table is None else self._table.resource_handle

    @property
    def initializer(self) -> Operation:
        """The operation that gives the table its content; one that does nothing for buckets alone."""
        if self._table is not None:
            return self._table.initializer
        with outside():
            return no_op()

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of words of the table and of buckets."""
        if self._table is None:
            return constant(self._buckets, dtypes.int64, name=name)
        return add(self._table.size(), constant(self._buckets, dtypes.int64), name=name)

    @overload
    def lookup(self, keys: SparseTensor, name: str | None = None) -> SparseTensor: ...
    @overload
    def lookup(self, keys: TensorLike, name: str | None = None) -> Tensor: ...
    def lookup(self, keys: TensorLike | SparseTensor, name: str | None = None) -> Tensor | SparseTensor:
        """Return the number of each word."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        return self._numbers(keys, name or f"{self._name}_Lookup")

    @transactional
    def _numbers(self, keys: TensorLike, name: str) -> Tensor:
        words = convert_to_tensor(keys, self._key_dtype)
        with get_default_graph().name_scope(name):
            if self._table is None:
                return self._bucket(words)
            own = self._table.key_dtype
            found = self._table.lookup(words if words.dtype is own else cast(words, own))
            if not self._buckets:
                return found
            is_known = not_equal(found, self._table.default_value)
            return where(is_known, found, add(self._bucket(words), self._table.size()))

    def _bucket(self, words: Tensor) -> Tensor:
        texts = words if words.dtype is dtypes.string else as_string(words)
        if self._hasher.key is None:
            return string_to_hash_bucket_fast(texts, self._buckets, name="hash_bucket")
        return string_to_hash_bucket_strong(texts, self._buckets, self._hasher.key, name="hash_bucket")

    def __repr__(self) -> str:
        return f"<af.lookup.{type(self).__name__} {self._name!r} with {self._buckets} buckets>"


class StaticVocabularyTable(IdTableWithHashBuckets):
    """Numbers of words: those of an initializer, and for all other words the number of a bucket after those.

    Args:
        initializer: the numbers of words, int64 from 0 on; None for buckets alone.
        num_oov_buckets: the number of buckets, at least one.
        lookup_key_dtype: the dtype of the words, that of the initializer's keys by default.
        name: the name of the table.

    Raises:
        ValueError: there is no bucket.
        TypeError: the numbers are not int64, or the words fit no key.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a", "b"], af.constant([0, 1], af.int64))
        >>> table = af.lookup.StaticVocabularyTable(init, num_oov_buckets=3)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["b", "other"])))
        array([1, 4])
    """

    @transactional
    def __init__(
        self,
        initializer: TableInitializerBase | None,
        num_oov_buckets: int,
        lookup_key_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError(f"num_oov_buckets is {num_oov_buckets}, and must be at least 1")
        if initializer is None:
            super().__init__(None, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)
            return
        if initializer.value_dtype is not dtypes.int64:
            raise TypeError(f"numbers of words are int64, and this initializer gives {initializer.value_dtype.name}")
        table = StaticHashTable(initializer, -1, name or "hash_table")
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)
