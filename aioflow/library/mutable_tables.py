"""Lookup tables that steps change."""

import abc
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.state import lookup_tables as ops
from aioflow.library.lookup_tables import LookupInterface
from aioflow.library.resource_handle import outside
from aioflow.tensors.dtypes import DType, DTypeLike, TensorShape, as_dtype
from aioflow.tensors.recursion import safe_repr


class MutableTable(LookupInterface, abc.ABC):
    """The common part of tables that steps change. Not created directly.

    An insertion or removal changes all of its keys or none. Within a step lookups and changes of one table run in the
    order in which they were built, as reads and updates of a variable do. `af.train.Saver` saves the table.

    Args:
        key_dtype: the dtype of the keys, strings or integers.
        value_dtype: the dtype of the values.
        default_value: the value of absent keys. All values have its shape.
        name: the name of the table.
        checkpoint: whether a Saver saves and restores it by default.
        shared_name: tables of this name are one table, in sessions that share their container.
    """

    @transactional
    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        name: str,
        checkpoint: bool,
        shared_name: str | None,
    ) -> None:
        with outside() as container:
            default = convert_to_tensor(default_value, value_dtype, name="default_value")
            if not default.shape.is_fully_defined():
                raise ValueError(f"the default value has the shape {default.shape}, which must be known")
            types = as_dtype(key_dtype), as_dtype(value_dtype)
            ref = self._handle(*types, default.shape, container, shared_name or "", name)
            super().__init__(ref, default)
            if checkpoint:
                ref.graph.add_to_collection(GraphKeys.SAVEABLE_OBJECTS, ref)

    @abc.abstractmethod
    def _handle(
        self, key: DType, value: DType, shape: TensorShape, container: str, shared_name: str, name: str
    ) -> Tensor:
        """Build the handle."""

    def insert(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that gives each key its value, the last one to a key that is given twice."""

        def build(name: str) -> Operation:
            given = convert_to_tensor(keys, self.key_dtype), convert_to_tensor(values, self.value_dtype)
            return ops.lookup_table_insert(self._ref, *given, name=name)

        return self._build("lookup_table_insert", name, build)

    def remove(self, keys: TensorLike, name: str | None = None) -> Operation:
        """Return an operation that removes keys; absent ones are no error."""

        def build(name: str) -> Operation:
            return ops.lookup_table_remove(self._ref, convert_to_tensor(keys, self.key_dtype), name=name)

        return self._build("lookup_table_remove", name, build)


class MutableHashTable(MutableTable):
    """A table that steps change.

        table = af.lookup.experimental.MutableHashTable(af.string, af.float32, default_value=[0.0, 0.0])
        await session.run(table.insert(["a", "b"], [[1.0, 2.0], [3.0, 4.0]]))
        rows = await session.run(table.lookup(["b", "c"]))

    See `MutableTable` for the order of changes, and for the arguments.

    Examples:
        >>> table = af.lookup.MutableHashTable(af.string, af.int64, -1)
        >>> await session.run(table.insert(["a", "b"], [1, 2]))
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 2, -1])
    """

    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        *,
        shared_name: str | None = None,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint, shared_name)

    def _handle(
        self, key: DType, value: DType, shape: TensorShape, container: str, shared_name: str, name: str
    ) -> Tensor:
        return ops.mutable_hash_table(key, value, shape, container, shared_name, name=name)

    def lookup(  # type: ignore[override]
        self, keys: Any, dynamic_default_values: TensorLike | None = None, name: str | None = None
    ) -> Any:
        """Return the value of each key, and for absent keys the default value, or that of `dynamic_default_values`."""
        if dynamic_default_values is None:
            return super().lookup(keys, name)
        return self._find(keys, dynamic_default_values, name)


class DenseHashTable(MutableTable):
    """A table that steps change, and whose keys may be vectors. Two keys are refused: `empty_key` and `deleted_key`.

    Args:
        key_dtype: the dtype of the keys, strings or integers.
        value_dtype: the dtype of the values.
        default_value: the value of absent keys. All values have its shape.
        empty_key: a key that is never used. All keys have its shape.
        deleted_key: another key that is never used.
        initial_num_buckets: a power of 2, for compatibility: the table has the room that it needs.
        name: the name of the table.
        checkpoint: whether a Saver saves and restores it by default.
        shared_name: tables of this name are one table, in sessions that share their container.

    Raises:
        ValueError: the two keys are equal, have different shapes, or are not known when the graph is built.

    Examples:
        >>> table = af.lookup.MutableDenseHashTable(af.int64, af.int64, -1, empty_key=0, deleted_key=-1)
        >>> await session.run(table.insert([1, 2], [10, 20]))
        >>> await session.run(table.lookup(af.constant([2, 3], af.int64)))
        array([20, -1])
    """

    @transactional
    def __init__(
        self,
        key_dtype: DTypeLike,
        value_dtype: DTypeLike,
        default_value: TensorLike,
        empty_key: TensorLike,
        deleted_key: TensorLike,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        *,
        shared_name: str | None = None,
    ) -> None:
        buckets = initial_num_buckets
        if buckets is not None and (buckets < 1 or buckets & (buckets - 1)):
            raise ValueError(f"initial_num_buckets is a power of 2, not {safe_repr(buckets)}")
        with outside():
            empty, deleted = [convert_to_tensor(key, key_dtype) for key in (empty_key, deleted_key)]
        known = [constant_value(key) for key in (empty, deleted)]
        if any(key is None for key in known):
            raise ValueError("empty_key and deleted_key must be known when the graph is built")
        self._reserved: Final = [key.tolist() for key in known]
        self._key_shape: Final = empty.shape
        if self._reserved[0] == self._reserved[1]:
            raise ValueError(f"empty_key and deleted_key must differ, and both are {safe_repr(self._reserved[0])}")
        if not empty.shape.is_compatible_with(deleted.shape):
            raise ValueError(f"empty_key has shape {empty.shape}, and deleted_key {deleted.shape}")
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint, shared_name)

    def _handle(
        self, key: DType, value: DType, shape: TensorShape, container: str, shared_name: str, name: str
    ) -> Tensor:
        return ops.mutable_dense_hash_table(
            key, value, self._key_shape, shape, self._reserved, container, shared_name, name=name
        )

    def insert_or_assign(self, keys: TensorLike, values: TensorLike, name: str | None = None) -> Operation:
        """See `insert`."""
        return self.insert(keys, values, name)

    def erase(self, keys: TensorLike, name: str | None = None) -> Operation:
        """See `remove`."""
        return self.remove(keys, name)
