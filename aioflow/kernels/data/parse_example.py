"""Features of examples as tensors: dense ones of one shape, and sparse ones of any length."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.files.message_wire import Part
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.data.example_wire import NAMES, feature_lists_of, feature_of, features_of
from aioflow.kernels.families import CPU
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import STRING, Array, DType, Namespace, Spec, TensorShape, float32, int64
from aioflow.tensors.object_arrays import concatenate_arrays, full_array, make_array, slices, to_list

_KIND: Final = {dtypes.string.name: 1, float32.name: 2, int64.name: 3}
Shapes = Sequence[TensorShape]


# Specs


def _check_types(keys: Sequence[str], types: Sequence[DType]) -> None:
    if len(keys) != len(types) or len(set(keys)) != len(keys):
        raise ValueError(f"{len(keys)} keys, all different, need as many dtypes, not {len(types)}: {list(keys)}")
    for key, dtype in zip(keys, types, strict=True):
        if dtype.name not in _KIND:
            raise TypeError(f"feature {key!r} must be {dtype.name}; features are float32, int64 or string")


def _check_defaults(keys: Sequence[str], shapes: Shapes, defaults: Sequence[Spec]) -> None:
    _check_types(keys, [default.dtype for default in defaults])
    for key, shape, default in zip(keys, shapes, defaults, strict=True):
        if shape.ndims is None or None in shape.as_list()[1:]:
            raise ValueError(f"feature {key!r} has shape {shape}; all sizes but the first must be known")
        size, wanted = default.shape.num_elements(), shape.num_elements()
        if size and size != (1 if wanted is None else wanted):
            raise ValueError(f"the default of feature {key!r} is of shape {default.shape}, the feature of {shape}")


def _sparse(types: Sequence[DType], rank: int) -> list[Spec]:
    """Indices of all, values of all, shapes of all."""
    return [
        *[Spec(int64, TensorShape.matrix(None, rank)) for _ in types],
        *[Spec(dtype, TensorShape.vector(None)) for dtype in types],
        *[Spec(int64, TensorShape.vector(rank)) for _ in types],
    ]


def _dense(before: TensorShape, types: Sequence[DType], shapes: Shapes) -> list[Spec]:
    return [Spec(dtype, before.concatenate(shape)) for dtype, shape in zip(types, shapes, strict=True)]


@op
def parse_example(
    serialized: Spec,
    names: Spec,
    dense_defaults: Sequence[Spec],
    sparse_keys: tuple[str, ...],
    sparse_types: tuple[DType, ...],
    dense_keys: tuple[str, ...],
    dense_shapes: tuple[TensorShape, ...],
    paired: tuple[str, ...] = (),
) -> tuple[Spec, ...]:
    """Features of an example, or of a vector of them: of the sparse ones all indices, values and shapes; the dense.

    A feature whose default has no elements is required. If the first size of a feature is open, its default pads the
    shorter rows. `names`, for error messages, is a vector with a name for each example, or empty. `paired` lists sparse
    keys two by two; the two keys of a pair must have equally many values in every example.
    """
    if serialized.only(STRING).rank not in (0, 1):
        raise ValueError(f"serialized is one string, or a vector of known rank, its shape is {serialized.shape}")
    names.only(STRING)
    _check_types(sparse_keys, sparse_types)
    _check_defaults(dense_keys, dense_shapes, dense_defaults)
    if not sparse_keys and not dense_keys:
        raise ValueError("features are missing")
    dense = _dense(serialized.shape, [default.dtype for default in dense_defaults], dense_shapes)
    return (*_sparse(sparse_types, 1 + (serialized.rank or 0)), *dense)


@op
def parse_sequence_example(
    serialized: Spec,
    names: Spec,
    context_defaults: Sequence[Spec],
    context_sparse_keys: tuple[str, ...],
    context_sparse_types: tuple[DType, ...],
    context_dense_keys: tuple[str, ...],
    context_dense_shapes: tuple[TensorShape, ...],
    list_sparse_keys: tuple[str, ...],
    list_sparse_types: tuple[DType, ...],
    list_dense_keys: tuple[str, ...],
    list_dense_types: tuple[DType, ...],
    list_dense_shapes: tuple[TensorShape, ...],
    list_may_be_missing: tuple[str, ...],
    context_paired: tuple[str, ...] = (),
) -> tuple[Spec, ...]:
    """Parses sequence examples: the context's features as `parse_example` returns them, then the steps' features.

    A sparse feature of the steps has one row per step; all steps of a dense feature have one shape. In a batch of
    sequences, zeros or empty strings pad the shorter ones, and the last outputs are each dense feature's lengths.
    """
    if serialized.only(STRING).rank not in (0, 1):
        raise ValueError(f"serialized is one string, or a vector of known rank, its shape is {serialized.shape}")
    names.only(STRING)
    rank, batch = serialized.rank or 0, serialized.shape
    _check_types(context_sparse_keys, context_sparse_types)
    _check_defaults(context_dense_keys, context_dense_shapes, context_defaults)
    _check_types(list_sparse_keys, list_sparse_types)
    _check_types(list_dense_keys, list_dense_types)
    for key, shape in zip(list_dense_keys, list_dense_shapes, strict=True):
        if not shape.is_fully_defined():
            raise ValueError(f"the steps of feature {key!r} have shape {shape}, which must be fully known")
    dense = _dense(batch, [default.dtype for default in context_defaults], context_dense_shapes)
    steps = _dense(batch.concatenate([None]), list_dense_types, list_dense_shapes)
    lengths = [Spec(int64, batch) for _ in steps] if rank else []
    return (*_sparse(context_sparse_types, 1 + rank), *dense, *_sparse(list_sparse_types, 2 + rank), *steps, *lengths)


for _op in (parse_example, parse_sequence_example):
    _op.no_gradient("bytes do not vary smoothly")


@parse_example.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 1e5 * len(outputs) * (inputs[0].shape.num_elements() or 10)


parse_sequence_example.cost(lambda inputs, outputs, attrs: 1e5)


# How it is done


class _Source:
    """One serialized example, and how errors call it."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where = data, where

    def reading(self, function: Callable[..., Any], *args: Any) -> Any:
        """function(data, ...); InvalidArgumentError for bytes that are not an example."""
        try:
            return function(self.data, *args)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self.where} cannot be parsed: {error}") from None

    def values(self, part: Part | None, key: str, dtype: DType) -> Any:
        """The values of a feature; None if it is not there."""
        found = None if part is None else self.reading(feature_of, part)
        if found is None:
            return None
        kind, values = found
        if kind != _KIND[dtype.name]:
            raise errors.InvalidArgumentError(
                f"feature {key!r} of {self.where} holds {NAMES[kind]}, but must be {dtype.name}"
            )
        return values


Row = tuple[_Source, dict[bytes, Part]]


def _rows(serialized: list[bytes], names: list[bytes], first: int = 0) -> list[Row]:
    if names and len(names) != len(serialized):
        raise errors.InvalidArgumentError(f"{len(names)} names were given for {len(serialized)} examples")
    rows = []
    for number, data in enumerate(serialized):
        called = f"example {names[number].decode(errors='replace')!r}" if names else f"example {first + number}"
        source = _Source(data, called)
        rows.append((source, source.reading(features_of)))
    return rows


def _array(values: Any, dtype: DType, shape: Sequence[int]) -> AnyArray:
    return make_array(values, shape, dtype.np)


def _found(rows: Sequence[Row], key: str, dtype: DType) -> list[Any]:
    """The values of a feature in each example, None where it is not."""
    name = key.encode()
    return [source.values(parts.get(name), key, dtype) for source, parts in rows]


def _sparse_values(found: Sequence[Any], dtype: DType, single: bool) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Indices, values and shape of rows of different lengths."""
    lengths = [0 if values is None else len(values) for values in found]
    places = _counted(lengths)
    values = _array(_flat([each for each in found if each is not None], dtype), dtype, [-1])
    most = max(lengths, default=0)
    if single:
        return places[:, None], values, np.array([most], np.int64)
    numbers = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    return np.stack([numbers, places], 1), values, np.array([len(lengths), most], np.int64)


def _counted(lengths: Sequence[int]) -> AnyArray:
    """For each row, the numbers from 0 to its length less 1."""
    counts = make_array(lengths, dtype=np.int64)
    numbers: AnyArray = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers


def _flat(rows: Sequence[Any], dtype: DType) -> Any:
    """The values of all, one after the other."""
    if rows and dtype is not dtypes.string:
        return np.concatenate([np.concatenate(rows[part]) for part in slices(len(rows))])
    return [value for values in rows for value in values]


def _dense_values(
    rows: Sequence[Row], key: str, shape: TensorShape, default: AnyArray, dtype: DType, single: bool
) -> AnyArray:
    found = _found(rows, key, dtype)
    sizes: list[Any] = shape.as_list()
    open_size = bool(sizes) and sizes[0] is None
    width = math.prod(sizes[1:] if open_size else sizes)
    checked = [
        _checked(source, key, values, default, shape, width, open_size)
        for (source, _), values in zip(rows, found, strict=True)
    ]
    if open_size:
        sizes[0] = max((len(values) // width if width else 0 for values in checked), default=0)
        checked = [_filled(values, sizes[0] * width, default, dtype) for values in checked]
    return _array(_flat(checked, dtype), dtype, sizes if single else [len(rows), *sizes])


def _checked(
    source: _Source, key: str, values: Any, default: AnyArray, shape: TensorShape, width: int, open_size: bool
) -> Any:
    """The values of one example, as many as the shape has, or the default."""
    if values is None:
        if open_size:
            return []
        if default.size != width or not width:
            raise errors.InvalidArgumentError(f"{source.where} has no feature {key!r}, which has no default")
        return default.ravel().tolist() if default.dtype == object else default.ravel()
    fits = width and len(values) % width == 0 if open_size else len(values) == width
    if not fits:
        raise errors.InvalidArgumentError(
            f"feature {key!r} of {source.where} has {len(values)} values, which do not fill shape {shape}"
        )
    return values


def _filler(default: AnyArray, dtype: DType) -> Any:
    return default.ravel()[0] if default.size else b"" if dtype is dtypes.string else 0


def _full(sizes: Sequence[int], value: Any, dtype: DType) -> AnyArray:
    return full_array(sizes, value) if dtype is dtypes.string else np.full(sizes, value, dtype.np)


def _filled(values: Any, count: int, default: AnyArray, dtype: DType) -> Any:
    filler = _filler(default, dtype)
    if dtype is dtypes.string:
        return [*values, *[filler] * (count - len(values))]
    return np.concatenate([np.asarray(values, dtype.np), np.full(count - len(values), filler, dtype.np)])


def _texts(value: Array) -> list[bytes]:
    return [bytes(text) for text in to_list(np.asarray(value, object))]


def _context(
    rows: Sequence[Row], sparse: Sequence[tuple[str, DType]], dense: Any, paired: Sequence[str], single: bool
) -> list[AnyArray]:
    """All indices, all values and all shapes of the sparse features, then the dense features."""
    found = {key: _found(rows, key, dtype) for key, dtype in sparse}
    for first, second in zip(paired[::2], paired[1::2], strict=True):
        _check_pairs(rows, first, found[first], second, found[second])
    parts = [_sparse_values(found[key], dtype, single) for key, dtype in sparse]
    made = [each[index] for index in range(3) for each in parts]
    for key, shape, default, dtype in dense:
        made.append(_dense_values(rows, key, shape, np.asarray(default), dtype, single))
    return made


def _check_pairs(rows: Sequence[Row], first: str, firsts: Sequence[Any], second: str, seconds: Sequence[Any]) -> None:
    for (source, _), a, b in zip(rows, firsts, seconds, strict=True):
        counts = [0 if values is None else len(values) for values in (a, b)]
        if counts[0] != counts[1]:
            raise errors.InvalidArgumentError(
                f"features {first!r} and {second!r} of {source.where} have {counts[0]} positions and {counts[1]} "
                "values; each value needs one position"
            )


def _combined(
    each: Sequence[list[AnyArray]], begins: Sequence[int], sparse: Sequence[Any], dense: Sequence[Any]
) -> list[AnyArray]:
    """The results of `_context` for slices of the examples, joined to those for all."""
    columns, count = list(zip(*each, strict=True)), len(sparse)
    indices = [
        np.concatenate([part + np.array([begin, 0]) for part, begin in zip(column, begins, strict=True)])
        for column in columns[:count]
    ]
    values = [_one(column) for column in columns[count : 2 * count]]
    shapes = [
        np.array([sum([int(shape[0]) for shape in column]), max([int(shape[1]) for shape in column])])
        for column in columns[2 * count : 3 * count]
    ]
    wholes = [
        _one(_widened(column, np.asarray(default), dtype))
        for column, (_, _, default, dtype) in zip(columns[3 * count :], dense, strict=True)
    ]
    return [*indices, *values, *shapes, *wholes]


def _one(parts: Sequence[AnyArray]) -> AnyArray:
    if parts[0].dtype != object:
        return np.concatenate(parts)
    return concatenate_arrays(parts).reshape(-1, *parts[0].shape[1:])


def _widened(parts: Sequence[AnyArray], default: AnyArray, dtype: DType) -> list[AnyArray]:
    """The rows of all slices, padded to the longest if the first size is open."""
    widest = max([part.shape[1:] for part in parts])
    made = []
    for part in parts:
        whole = part
        if part.shape[1:] != widest:
            whole = _full((len(part), *widest), _filler(default, dtype), dtype)
            whole[:, : part.shape[1]] = part
        made.append(whole)
    return made


@parse_example.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Any]:
    attrs = node.attrs
    single = node.input_specs[0].rank == 0
    sparse = list(zip(attrs["sparse_keys"], attrs["sparse_types"], strict=True))
    types = [spec.dtype for spec in node.output_specs[3 * len(sparse) :]]
    forms = list(zip(attrs["dense_keys"], attrs["dense_shapes"], types, strict=True))

    def parse(serialized: Array, names: Array, defaults: Sequence[Array]) -> Any:
        dense = [(key, shape, default, dtype) for (key, shape, dtype), default in zip(forms, defaults, strict=True)]
        made = parsed_examples(_texts(serialized), _texts(names), sparse, dense, attrs["paired"], single)
        return made[0] if len(made) == 1 else tuple(made)

    return parse


def parsed_examples(
    serialized: list[bytes],
    names: list[bytes],
    sparse: Sequence[tuple[str, DType]],
    dense: Sequence[tuple[str, TensorShape, Array, DType]],
    paired: Sequence[str] = (),
    single: bool = False,
) -> list[AnyArray]:
    """Return what `parse_example` makes of serialized examples.

    Args:
        serialized: the examples.
        names: their names in errors; none to number them.
        sparse: the keys and dtypes of the sparse features.
        dense: the keys, shapes, defaults and dtypes of the dense ones.
        paired: sparse keys two by two, which must have equally many values in every example.
        single: whether there is one example, without an axis for it in the results.
    """
    parts = list(slices(len(serialized))) or [slice(0, 0)]  # fewer objects at a time for Python's collector
    each = [_context(_rows(serialized[s], names[s], s.start), sparse, dense, paired, single) for s in parts]
    return each[0] if len(each) == 1 else _combined(each, [s.start for s in parts], sparse, dense)


@parse_sequence_example.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[..., Any]:
    attrs = node.attrs
    sparse = list(zip(attrs["context_sparse_keys"], attrs["context_sparse_types"], strict=True))
    single = node.input_specs[0].rank == 0
    types = [spec.dtype for spec in node.input_specs[2:]]

    def parse(serialized: Array, names: Array, defaults: Sequence[Array]) -> Any:
        rows = _rows(_texts(serialized), _texts(names))
        lists = [(source, source.reading(feature_lists_of)) for source, _ in rows]
        dense = zip(attrs["context_dense_keys"], attrs["context_dense_shapes"], defaults, types, strict=True)
        context = _context(rows, sparse, dense, attrs["context_paired"], single)
        made = [*context, *_steps(lists, attrs, single)]
        return made[0] if len(made) == 1 else tuple(made)

    return parse


Lists = tuple[_Source, dict[bytes, list[Part]]]


def _steps(rows: Sequence[Lists], attrs: Any, single: bool) -> list[AnyArray]:
    """All indices, values and shapes of the sparse features, then the dense ones; of a batch also the lengths."""
    sparse = [
        _sparse_steps(rows, key, dtype, single)
        for key, dtype in zip(attrs["list_sparse_keys"], attrs["list_sparse_types"], strict=True)
    ]
    keys = zip(attrs["list_dense_keys"], attrs["list_dense_types"], attrs["list_dense_shapes"], strict=True)
    dense = [
        [_dense_steps(row, key, dtype, shape.as_list(), key in attrs["list_may_be_missing"]) for row in rows]
        for key, dtype, shape in keys
    ]
    made = [each[index] for index in range(3) for each in sparse]
    if single:
        return [*made, *[steps for (steps,) in dense]]
    lengths = [np.array([len(steps) for steps in found], np.int64) for found in dense]
    filled = [
        _together(found, dtype, shape.as_list())
        for found, dtype, shape in zip(dense, attrs["list_dense_types"], attrs["list_dense_shapes"], strict=True)
    ]
    return [*made, *filled, *lengths]


def _step_values(row: Lists, key: str, dtype: DType) -> list[Any]:
    source, lists = row
    return [source.values(part, key, dtype) for part in lists.get(key.encode(), ())]


def _sparse_steps(rows: Sequence[Lists], key: str, dtype: DType, single: bool) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Indices, values and shape: a row for each step, and of several sequences a matrix for each."""
    found = [_step_values(row, key, dtype) for row in rows]
    indices, values, shape = _sparse_values([step for steps in found for step in steps], dtype, False)
    if single:
        return indices, values, shape
    counts = np.array([len(steps) for steps in found], np.int64)
    numbers = np.repeat(np.arange(len(counts)), counts)
    steps = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    whole = np.array([len(counts), counts.max(initial=0), shape[1]], np.int64)
    return np.stack([numbers[indices[:, 0]], steps[indices[:, 0]], indices[:, 1]], 1), values, whole


def _dense_steps(row: Lists, key: str, dtype: DType, sizes: list[int], may_be_missing: bool) -> AnyArray:
    source, lists = row
    if key.encode() not in lists and not may_be_missing:
        raise errors.InvalidArgumentError(f"{source.where} has no feature {key!r}, which has no default")
    steps = _step_values(row, key, dtype)
    for number, values in enumerate(steps):
        if values is None or len(values) != math.prod(sizes):
            count = 0 if values is None else len(values)
            where = f"step {number} of feature {key!r} of {source.where}"
            raise errors.InvalidArgumentError(f"{where} has {count} values, which do not fill shape {sizes}")
    return _array(_flat(steps, dtype), dtype, [len(steps), *sizes])


def _together(found: Sequence[AnyArray], dtype: DType, sizes: list[int]) -> AnyArray:
    """One array of all, as long as the longest."""
    most = max([len(steps) for steps in found], default=0)
    made = _full([len(found), most, *sizes], b"" if dtype is dtypes.string else 0, dtype)
    for row, steps in zip(made, found, strict=True):
        row[: len(steps)] = steps
    return made
