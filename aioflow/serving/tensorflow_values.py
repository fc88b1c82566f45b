"""The values of TensorFlow Serving's JSON: inputs by rows, by columns, or as features of examples.

    rows       {"instances": [{"x": 1, "y": [2, 3]}, ...]}   or, with one input, {"instances": [1, ...]}
    columns    {"inputs": {"x": [1, ...], "y": [[2, 3], ...]}}   or, with one input, {"inputs": [1, ...]}
    examples   {"context": {"y": [2, 3]}, "examples": [{"x": 1}, ...]}

Bytes are `{"b64": "..."}`, in base 64.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.tensors import dtypes
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array
from aioflow.tensors.object_arrays import SLICE_ELEMENTS, make_array, slices
from aioflow.tensors.recursion import check_depth, short_repr

_BYTES_SUFFIX: Final = "_bytes"
"""Outputs with such names are binary: each of their elements is written in base 64."""

Inputs = Mapping[str, Tensor]
"""The inputs of a signature."""


# From a request


def read_rows(instances: Any, inputs: Inputs) -> dict[str, Array]:
    """Return the arrays of inputs given row by row. InvalidArgumentError names what is wrong."""
    _check_rows("instances", instances)
    if not any(map(_is_named, instances)):
        return {_only(inputs, "instances"): _to_array(instances, _only(inputs, "instances"), inputs)}
    names = _names(instances[0], "instances")
    for index, instance in enumerate(instances):
        if _names(instance, "instances") != names:
            text = f"instance {index} has {_listed(_names(instance, 'instances'))}, and the first has {_listed(names)}"
            raise errors.InvalidArgumentError(f"{text}: all must have the same inputs")
    return {name: _to_array([instance[name] for instance in instances], name, inputs) for name in names}


def read_columns(columns: Any, inputs: Inputs) -> dict[str, Array]:
    """Return the arrays of inputs given as a whole. InvalidArgumentError names what is wrong."""
    if not _is_named(columns):
        name = _only(inputs, "inputs")
        return {name: _to_array(columns, name, inputs)}
    return {name: _to_array(value, name, inputs) for name, value in columns.items()}


def read_examples(examples: Any, context: Any, inputs: Inputs) -> dict[str, Array]:
    """Return the arrays of inputs given as features of examples; those of the context belong to each example.

    A feature is a number, a text, or a list of them. InvalidArgumentError names what is wrong.
    """
    _check_rows("examples", examples)
    _names(context, "context")
    for example in examples:
        unknown = {*_names(example, "examples"), *context} - {*inputs}
        if unknown:
            raise errors.InvalidArgumentError(f"there is no feature {_listed(unknown)}; there is {_listed(inputs)}")
    return {name: _to_array(_feature_rows(name, examples, context, inputs), name, inputs) for name in inputs}


def _feature_rows(name: str, examples: Sequence[Any], context: Mapping[str, Any], inputs: Inputs) -> list[Any]:
    rows = [example.get(name, context.get(name)) for example in examples]
    if None in rows:
        text = f"example {rows.index(None)} and the context lack the feature {name!r}"
        raise errors.InvalidArgumentError(text)
    rank = inputs[name].shape.ndims
    return [_fit(row, rank) for row in rows]


def _fit(row: Any, rank: int | None) -> Any:
    """Return a feature in the form of the rows of its input: a single value may be given bare, or as a list of one."""
    if rank == 1 and isinstance(row, list) and len(row) == 1:
        return row[0]
    return [row] if rank == 2 and not isinstance(row, list) else row


def _to_array(value: Any, name: str, inputs: Inputs) -> Array:
    """Return the value of an input, of which only the dtype is known here: `infer` checks names and shapes."""
    if name not in inputs:
        raise errors.InvalidArgumentError(f"there is no input {name!r}; there is {_listed(inputs)}")
    dtype = inputs[name].dtype
    try:
        check_depth(value)
        return as_array(_decode_base64(value) if dtype is dtypes.string else value, dtype, strict=True)
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"input {name!r}: {error}") from None


def _decode_base64(value: Any) -> Any:
    """Return nested lists with bytes in place of `{"b64": "..."}`. ValueError if that is not base 64."""
    if isinstance(value, list):
        return [_decode_base64(item) for item in value]
    if not _is_base64(value):
        return value
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{short_repr(value['b64'])} is not base 64: {error}") from None


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _is_named(value: Any) -> bool:
    """Whether a value has inputs by name."""
    return isinstance(value, dict) and not _is_base64(value)


def _check_rows(key: str, rows: Any) -> None:
    if not isinstance(rows, list) or not rows:
        raise errors.InvalidArgumentError(f'"{key}" must be a list with at least one element')


def _names(value: Any, key: str) -> set[str]:
    if not _is_named(value):
        raise errors.InvalidArgumentError(f'"{key}" must have values by name, as {{"x": 1}}, not {short_repr(value)}')
    return {*value}


def _only(inputs: Inputs, key: str) -> str:
    """Return the name of the only input. InvalidArgumentError if there are several."""
    if len(inputs) != 1:
        text = f'the signature has the inputs {_listed(inputs)}: "{key}" must name them'
        raise errors.InvalidArgumentError(text)
    return next(iter(inputs))


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


# To a response


def write_rows(outputs: Mapping[str, Array]) -> list[Any]:
    """Return outputs row by row. InvalidArgumentError if they do not have as many rows."""
    counts = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if None in counts.values() or len({*counts.values()}) > 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        text = f"the outputs do not have as many rows ({shapes}): send the inputs by columns"
        raise errors.InvalidArgumentError(text)
    columns = {name: to_list(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_columns(outputs: Mapping[str, Array]) -> Any:
    """Return outputs by name; a single one by itself."""
    columns = {name: to_list(name, array) for name, array in outputs.items()}
    return next(iter(columns.values())) if len(columns) == 1 else columns


def to_list(name: str, array: Array) -> Any:
    """Return an output as nested lists of JSON's values. UnimplementedError if JSON has none for its dtype."""
    dtype = dtypes.as_dtype(array.dtype)
    if dtype is dtypes.string:
        texts = [_to_text(name, text) for text in array.reshape(-1).tolist()]
        return make_array(texts, array.shape).tolist()
    if dtype.is_complex:
        raise errors.UnimplementedError(f"output {name!r} is {dtype.name}, which JSON cannot hold")
    plain = array if array.dtype.isbuiltin == 1 else array.astype(np.float64 if dtype.is_floating else np.int64)
    return _nested_list(plain)


def _nested_list(array: Array) -> Any:
    """Return `array.tolist()`, a few rows at a time: other threads go on between them."""
    if array.size <= SLICE_ELEMENTS:
        return array.tolist()
    rows: list[Any] = []
    for part in slices(len(array), max(1, SLICE_ELEMENTS * len(array) // array.size)):
        rows += array[part].tolist()
    return rows


def _to_text(name: str, text: bytes) -> Any:
    """Return a text; bytes that are not one, and those of binary outputs, in base 64."""
    if not name.endswith(_BYTES_SUFFIX):
        try:
            return text.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(text).decode()}
