"""Lookup tables whose content an initializer gives once."""

from typing import Final, overload

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.kernels.state import lookup_tables as ops
from aioflow.library.resource_handle import Handle, outside
from aioflow.library.table_initializers import TableInitializerBase
from aioflow.tensors.dtypes import DType
from aioflow.tensors.recursion import safe_repr


class LookupInterface(Handle):
    """The common part of all lookup tables. Not created directly.

    Args:
        ref: the handle, a tensor.
        default_value: the value of absent keys.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a"], [1])
        >>> isinstance(af.lookup.HashTable(init, 0), af.lookup.LookupInterface)
        True
    """

    def __init__(self, ref: Tensor, default_value: Tensor) -> None:
        super().__init__(ref)
        self._default: Final = default_value

    @property
    def resource_handle(self) -> Tensor:
        """The handle, a tensor."""
        return self._ref

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return ops.TableSpec.check(self._ref.spec).items[0].dtype

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return ops.TableSpec.check(self._ref.spec).items[1].dtype

    @property
    def default_value(self) -> Tensor:
        """The value of absent keys."""
        return self._default

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys."""
        return self._build("Size", name, lambda name: ops.lookup_table_size(self._ref, name=name))

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys and their values."""
        keys, values = self._build("export_values", name, lambda name: ops.lookup_table_export(self._ref, name=name))
        return keys, values

    @overload
    def lookup(self, keys: SparseTensor, name: str | None = None) -> SparseTensor: ...
    @overload
    def lookup(self, keys: TensorLike, name: str | None = None) -> Tensor: ...
    def lookup(self, keys: TensorLike | SparseTensor, name: str | None = None) -> Tensor | SparseTensor:
        """Return the value of each key, and the default value for absent keys.

        Within a step it sees the changes that were built before it. FailedPreconditionError, in the run, if the table
        is not initialized.
        """
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        return self._find(keys, self._default, name)

    def _find(self, keys: TensorLike, default: TensorLike, name: str | None) -> Tensor:
        def build(name: str) -> Tensor:
            given = convert_to_tensor(keys, self.key_dtype), convert_to_tensor(default, self.value_dtype)
            return ops.lookup_table_find(self._ref, *given, name=name)

        return self._build("Lookup", name, build)


class StaticHashTable(LookupInterface):
    """A table from keys to values, whose content never changes after its initializer has run.

        table = af.lookup.StaticHashTable(af.lookup.KeyValueTensorInitializer(["red", "blue"], [1, 2]), -1)
        numbers = table.lookup(words)
        await session.run(af.tables_initializer())

    Running the initializer again changes nothing.

    Args:
        initializer: the content.
        default_value: the value of absent keys.
        name: the name of the table.
        shared_name: tables of this name are one table, in sessions that share their container.

    Examples:
        >>> init = af.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> table = af.lookup.HashTable(init, default_value=-1)
        >>> await session.run(table.initializer)
        >>> await session.run(table.lookup(af.constant(["b", "x"])))
        array([ 2, -1], dtype=int32)
    """

    @transactional
    def __init__(
        self,
        initializer: TableInitializerBase,
        default_value: TensorLike,
        name: str | None = None,
        *,
        shared_name: str | None = None,
    ) -> None:
        if not isinstance(initializer, TableInitializerBase):
            raise TypeError(f"a table needs an initializer of its content, not {safe_repr(initializer)}")
        types = initializer.key_dtype, initializer.value_dtype
        with outside() as container:
            ref = ops.hash_table(*types, container, shared_name or "", name=name or "hash_table")
            default = convert_to_tensor(default_value, initializer.value_dtype, name="default_value")
            if not default.shape.is_compatible_with([]):
                raise ValueError(f"the default value of a table is one value, not one of shape {default.shape}")
        super().__init__(ref, default)
        self._initializer: Final = initializer.initialize(self)

    @property
    def initializer(self) -> Operation:
        """The operation that gives the table its content."""
        return self._initializer
