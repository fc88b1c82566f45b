"""Ops on lookup tables: a handle, lookups, insertions, removals, whole contents.

Within a step the plan keeps the reads and updates of one table in the order in which they were built, as for variables.
An update changes all of its keys or none.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.context import Context
from aioflow.kernels.families import elements
from aioflow.kernels.state.readers import text_of
from aioflow.kernels.state.resource_handles import LiveSpec, opened
from aioflow.kernels.state.run_state import Cut
from aioflow.resources.tables import Table
from aioflow.resources.vocabulary_files import LINE_NUMBER, WHOLE_LINE, read_columns
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import INTEGER, SCALAR, STRING, Array, DeviceKind, DType, Spec, TensorShape

CPU = DeviceKind.CPU
_COUNT = TensorShape([None])
_KEY: Final = 1e3
"""The cost of one key, in additions."""


class TableSpec(LiveSpec):
    """A handle to a table, from keys like `items[0]` to values like `items[1]`."""

    __slots__ = ()
    kind = "a lookup table"


class StaticSpec(TableSpec):
    """A handle to a table whose content its initializer gives."""

    __slots__ = ()
    kind = "a lookup table with an initializer"


class MutableSpec(TableSpec):
    """A handle to a table that steps change."""

    __slots__ = ()
    kind = "a lookup table that can change"


# Handles


def _pair(key: Spec, value: Spec) -> tuple[Spec, Spec]:
    if value.dtype is dtypes.resource:
        raise TypeError("a table has tensors as values, not resources")
    if not value.shape.is_fully_defined() or not key.shape.is_fully_defined():
        raise ValueError(f"the shapes of a table's keys and values are fixed, unlike {key.shape} and {value.shape}")
    return key.only(INTEGER, STRING), value


@op(stateful=True, observes=True, handle=True)
def hash_table(key_dtype: DType, value_dtype: DType, container: str = "", shared_name: str = "") -> Spec:
    """A handle to a table that has no content until it is initialized, and the same one from then on."""
    return StaticSpec(_pair(Spec(key_dtype, SCALAR), Spec(value_dtype, SCALAR)))


@op(stateful=True, observes=True, handle=True)
def mutable_hash_table(
    key_dtype: DType, value_dtype: DType, value_shape: TensorShape = SCALAR, container: str = "", shared_name: str = ""
) -> Spec:
    """A handle to a table that steps change. It is empty at first."""
    return MutableSpec(_pair(Spec(key_dtype, SCALAR), Spec(value_dtype, TensorShape(value_shape))))


@op(stateful=True, observes=True, handle=True)
def mutable_dense_hash_table(
    key_dtype: DType,
    value_dtype: DType,
    key_shape: TensorShape = SCALAR,
    value_shape: TensorShape = SCALAR,
    reserved: Sequence[Any] = (),
    container: str = "",
    shared_name: str = "",
) -> Spec:
    """The same; keys may be vectors, and those that are `reserved` are refused."""
    return MutableSpec(_pair(Spec(key_dtype, TensorShape(key_shape)), Spec(value_dtype, TensorShape(value_shape))))


def _open(ctx: Context, *, node: NodeView) -> Table:
    spec = TableSpec.check(node.output_specs[0])
    (key, value), is_static = spec.items, isinstance(spec, StaticSpec)
    return opened(ctx, node, Table, lambda name: Table(name, key, value, node.attrs, is_static))


for _handle in (hash_table, mutable_hash_table, mutable_dense_hash_table):
    _handle.no_gradient("a handle has no history")
    _handle.kernel(CPU)(_open)


# Reading


def _leading(keys: Spec, key: Spec) -> TensorShape:
    """The shape of a tensor of keys, without that of one key. TypeError or ValueError if they are not such keys."""
    if keys.dtype is not key.dtype:
        raise TypeError(f"keys of this table are {key.dtype.name}, not {keys.dtype.name}")
    if keys.rank is None:
        return TensorShape(None)
    own = key.shape.as_list()
    if len(own) > keys.rank or not keys.shape[keys.rank - len(own) :].is_compatible_with(key.shape):
        raise ValueError(f"keys of this table have the shape {key.shape} at their end, unlike {keys.shape}")
    return TensorShape(keys.shape.as_list()[: keys.rank - len(own)])


def _check_values(values: Spec, value: Spec, leading: TensorShape, what: str) -> None:
    if values.dtype is not value.dtype:
        raise TypeError(f"{what} of this table must be {value.dtype.name}, not {values.dtype.name}")
    needed = leading.concatenate(value.shape)
    if not values.shape.is_compatible_with(needed):
        raise ValueError(f"{what} must have the shape {needed}, {value.shape} for each key, not {values.shape}")


@op(stateful=True, observes=True)
def lookup_table_find(table_handle: Spec, keys: Spec, default_value: Spec) -> Spec:
    """The value of each key; for absent keys `default_value`, which is one value, or one for each key.

    FailedPreconditionError if the table is not initialized.
    """
    key, value = TableSpec.check(table_handle).items
    leading = _leading(keys, key)
    if default_value.shape.is_compatible_with(value.shape):
        _check_values(default_value, value, SCALAR, "the default value")
    else:
        _check_values(default_value, value, leading, "default values")
    return Spec(value.dtype, leading.concatenate(value.shape))


@lookup_table_find.kernel(CPU, fresh=True)
def _(ctx: Context, live: Table, keys: Array, default: Array) -> Array:
    return live.find(keys, default)


@op(stateful=True, observes=True)
def lookup_table_size(table_handle: Spec) -> Spec:
    """The number of keys. FailedPreconditionError if the table is not initialized."""
    TableSpec.check(table_handle)
    return Spec(dtypes.int64, SCALAR)


lookup_table_size.kernel(CPU, fresh=True, binds=True)(lambda xp, node: lambda live: np.int64(live.size()))


def _contents(handle: Spec) -> tuple[Spec, Spec]:
    key, value = TableSpec.check(handle).items
    return Spec(key.dtype, _COUNT.concatenate(key.shape)), Spec(value.dtype, _COUNT.concatenate(value.shape))


@op(stateful=True, observes=True)
def lookup_table_export(table_handle: Spec) -> tuple[Spec, Spec]:
    """All keys and their values, in the order in which the keys came. FailedPreconditionError as in a lookup."""
    return _contents(table_handle)


lookup_table_export.kernel(CPU, fresh=True, binds=True)(lambda xp, node: Table.contents)


# Initializing


@op(stateful=True)
def initialize_table(table_handle: Spec, keys: Spec, values: Spec) -> None:
    """The table holds these keys and values, as long as it lives.

    FailedPreconditionError if a key has two values, or the table has another content already.
    """
    key, value = StaticSpec.check(table_handle).items
    leading = _leading(keys.with_rank(1), key)
    _check_values(values, value, leading, "values")


@initialize_table.kernel(CPU, fresh=True)
def _(ctx: Context, live: Table, keys: Array, values: Array) -> None:
    ctx.step.check()
    live.initialize(keys, values, ctx.step.journal)


@op(stateful=True, waits=True)
def initialize_table_from_text_file(
    table_handle: Spec,
    filename: Spec,
    key_index: int,
    value_index: int,
    vocab_size: int = -1,
    delimiter: str = "\t",
    offset: int = 0,
) -> None:
    """The table holds a key and a value for each line of a text file on its task.

    Args:
        table_handle: the table.
        filename: the path, or URL, of the file.
        key_index: a column, from 0 on; -2 for the whole line, -1 for the number of the line.
        value_index: the same for values.
        vocab_size: how many lines to read; -1 for all.
        delimiter: the character between columns.
        offset: the number of the first line.

    Raises:
        InvalidArgumentError: in the run: the file has other lines.
        FailedPreconditionError: in the run: a key has two values, or the table has another content already.
        NotFoundError: in the run: there is no such file.
    """
    filename.only(STRING).with_rank(0)
    key, value = StaticSpec.check(table_handle).items
    for what, index, item in (("key", key_index, key), ("value", value_index, value)):
        if index < WHOLE_LINE:
            raise ValueError(f"{what}_index is a column from 0 on, {LINE_NUMBER} or {WHOLE_LINE}: not {index}")
        if index == LINE_NUMBER and item.dtype not in INTEGER:
            raise ValueError(f"numbers of lines are integers, and {what}s are {item.dtype.name}")
        if index == WHOLE_LINE and item.dtype not in INTEGER | STRING:
            raise ValueError(f"whole lines are strings or integers, and {what}s are {item.dtype.name}")
    if len(delimiter.encode()) != 1:
        raise ValueError(f"delimiter is one character of ASCII, not {delimiter!r}")
    if vocab_size != -1 and vocab_size < 1:
        raise ValueError(f"vocab_size is a positive number of lines, or -1 for all: not {vocab_size}")


@initialize_table_from_text_file.kernel(CPU, fresh=True)
async def _(ctx: Context, live: Table, filename: Array, *, node: NodeView) -> None:
    attrs, handle = node.attrs, node.input_specs[0]
    key, value = TableSpec.check(handle).items
    columns = [(attrs["key_index"], key.dtype), (attrs["value_index"], value.dtype)]
    rest = attrs["vocab_size"], attrs["delimiter"].encode(), attrs["offset"]
    keys, values = await ctx.step.with_files(read_columns, text_of(filename).decode(), columns, *rest)
    ctx.step.check()
    live.initialize(keys, values, ctx.step.journal)


# Changing


@op(stateful=True)
def lookup_table_insert(table_handle: Spec, keys: Spec, values: Spec) -> None:
    """Each key has its value, in place of an earlier one; the last of several for one key."""
    key, value = MutableSpec.check(table_handle).items
    _check_values(values, value, _leading(keys, key), "values")


@lookup_table_insert.kernel(CPU, fresh=True)
def _(ctx: Context, live: Table, keys: Array, values: Array) -> None:
    ctx.step.check()
    live.insert(keys, values, ctx.step.journal)


@op(stateful=True)
def lookup_table_remove(table_handle: Spec, keys: Spec) -> None:
    """The table has these keys no longer; absent ones are no error."""
    _leading(keys, MutableSpec.check(table_handle).items[0])


@lookup_table_remove.kernel(CPU, fresh=True)
def _(ctx: Context, live: Table, keys: Array) -> None:
    ctx.step.check()
    live.remove(keys, ctx.step.journal)


@op(stateful=True)
def lookup_table_import(table_handle: Spec, keys: Spec, values: Spec) -> None:
    """The table holds these keys and values and no others, as for a restored checkpoint."""
    key, value = MutableSpec.check(table_handle).items
    _check_values(values, value, _leading(keys, key), "values")


@lookup_table_import.kernel(CPU, fresh=True)
def _(ctx: Context, live: Table, keys: Array, values: Array) -> None:
    ctx.step.check()
    live.replace(keys, values)


# Snapshots


@op(stateful=True)
def mark_table(table_handle: Spec) -> None:
    """Marks the table for the step's snapshot, which takes all marked objects of a task at one moment."""
    TableSpec.check(table_handle)


mark_table.kernel(CPU)(lambda ctx, live: ctx.step.common(Cut).mark(live))


@op(stateful=True)
def cut_table(table_handle: Spec) -> tuple[Spec, Spec]:
    """The table's keys and values in the step's snapshot."""
    return _contents(table_handle)


@cut_table.kernel(CPU)
def _(ctx: Context, live: Table) -> tuple[Array, Array]:
    found: tuple[Array, Array] = ctx.step.common(Cut).value(live)
    return found


def _cost(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return _KEY * elements(inputs[1])


_op: Any
for _op in (initialize_table, lookup_table_find, lookup_table_insert, lookup_table_import, lookup_table_remove):
    _op.cost(_cost)
for _op in (lookup_table_find, lookup_table_export):
    _op.no_gradient("the history of a value ends where it entered the table")
for _op in (initialize_table, initialize_table_from_text_file, lookup_table_insert, lookup_table_remove):
    _op.no_gradient("it changes state")
lookup_table_import.no_gradient("it changes state")
lookup_table_size.no_gradient("it counts keys")
mark_table.no_gradient("it marks what has state")
cut_table.no_gradient("it is for checkpoints")
