"""Functions of elements on RaggedTensors: they work on the values, and the rows stay."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.composed import ELEMENTWISE, key_of
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import constants
from aioflow.kernels.array.ranges import one_hot
from aioflow.kernels.control.debugging import check_numerics
from aioflow.kernels.math import arithmetic, bessel_i, casting, complex, division, rounding
from aioflow.kernels.nn import activation, losses
from aioflow.kernels.text import string_hash, strings
from aioflow.library import embedding, nn_functions
from aioflow.library.arrays import where_v2
from aioflow.library.ragged.broadcasting import broadcast
from aioflow.library.ragged.rows import with_same_rows
from aioflow.library.ragged.tensor import RaggedTensor, with_partitions
from aioflow.library.ragged.tensor_value import RaggedTensorValue
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import DType

_OPERANDS: Final = (RaggedTensor, RaggedTensorValue, Tensor, Variable, np.ndarray)


def each_element(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the function of the elements of its arguments, which are broadcast together, in their rows."""
    places = [*enumerate(args), *kwargs.items()]
    dtype = next(value.dtype for value in _flattened(each for _, each in places) if isinstance(value, RaggedTensor))
    operands = [value for value in _flattened(each for _, each in places) if _is_operand(value)]
    flats, partitions = broadcast([_converted(value, dtype) for value in operands])
    given = iter(flats)
    made = {place: _replaced(value, given) for place, value in places}
    result = function(*[made[place] for place in range(len(args))], **{name: made[name] for name in kwargs})
    return with_partitions(result, partitions)


def _flattened(values: Any) -> list[Any]:
    """The values, and the items of lists that hold objects."""
    return [item for value in values for item in (value if _is_list_of_tensors(value) else [value])]


def _is_list_of_tensors(value: Any) -> bool:
    return type(value) in (list, tuple) and any(isinstance(item, (RaggedTensor, Tensor, Variable)) for item in value)


def _is_operand(value: Any) -> bool:
    return isinstance(value, _OPERANDS) or type(value) in (list, tuple)


def _converted(value: Any, dtype: DType) -> Any:
    """Return an operand as a tensor or RaggedTensor; lists of numbers of that dtype, if they fit it."""
    if type(value) not in (list, tuple):
        return value
    try:
        return convert_to_tensor(value, dtype)
    except TypeError:
        return convert_to_tensor(value)


def _replaced(value: Any, given: Any) -> Any:
    if _is_list_of_tensors(value):
        return [next(given) if _is_operand(item) else item for item in value]
    return next(given) if _is_operand(value) else value


def _each_element_of_op(called: Op[Any], *values: Any) -> Any:
    """Return the op of the elements of its data."""
    pairs = [*zip(called.params, values, strict=True)]
    attrs = {param.name: value for param, value in pairs if param.role == "attr"}
    data = {param.name: value for param, value in pairs if param.role != "attr"}
    return each_element(functools.partial(called, **attrs), **data)


RaggedTensor.rules[ELEMENTWISE] = _each_element_of_op


def _of_each_element(*functions: Callable[..., Any]) -> None:
    """Declare that these functions work on the elements of RaggedTensors, broadcast together."""
    for function in functions:
        rule: Callable[..., Any] = _each_element_of_op if isinstance(function, Op) else each_element
        RaggedTensor.rules[key_of(function)] = functools.partial(rule, function)


_of_each_element(
    arithmetic.add, arithmetic.add_n, casting.bitcast, check_numerics, constants.ones_like, constants.stop_gradient,
    constants.zeros_like, rounding.clip_by_value, rounding.round, strings.as_string, strings.string_to_number,
    strings.string_lower, strings.string_upper, strings.string_length, strings.string_join, strings.string_strip,
    strings.substr, strings.regex_replace, strings.regex_full_match, string_hash.string_to_hash_bucket_fast,
    string_hash.string_to_hash_bucket_strong, string_hash.string_to_hash_bucket,
    string_hash.decode_base64, string_hash.encode_base64, casting.saturate_cast, complex.angle, complex.complex,
    complex.conj, complex.imag, complex.real, division.div, division.log_sigmoid, bessel_i.bessel_i0,
    bessel_i.bessel_i1, activation.leaky_relu, losses.sigmoid_cross_entropy_with_logits, nn_functions.dropout,
    nn_functions.gelu, nn_functions.silu, where_v2,
)  # fmt: skip


def _cast(x: RaggedTensor, dtype: Any, name: str | None = None) -> RaggedTensor:
    return x.with_flat_values(casting.cast(x.flat_values, dtype, name))


def _one_hot(
    indices: RaggedTensor,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> RaggedTensor:
    if axis is not None and axis >= 0:
        if axis <= indices.ragged_rank:
            raise ValueError(f"axis is {axis}, and must be behind the {indices.ragged_rank} ragged axes")
        axis -= indices.ragged_rank
    return indices.with_flat_values(one_hot(indices.flat_values, depth, on_value, off_value, axis, dtype, name))


def _embedding_lookup(params: Any, ids: Any, *args: Any, **kwargs: Any) -> RaggedTensor:
    rows = embedding.embedding_lookup(params, ids.flat_values, *args, **kwargs)
    return with_partitions(rows, ids.partitions)  # type: ignore[no-any-return]


def _of_sparse_ids(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of SparseTensors that takes RaggedTensors in their place."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_sparse, args), **{name: _sparse(value) for name, value in kwargs.items()})

    return call


def _sparse(value: Any) -> Any:
    return value.to_sparse() if isinstance(value, RaggedTensor) else value


RaggedTensor.rules.update(
    {
        key_of(casting.cast): _cast,
        key_of(one_hot): _one_hot,
        key_of(embedding.embedding_lookup): _embedding_lookup,
        key_of(embedding.embedding_lookup_sparse): _of_sparse_ids(embedding.embedding_lookup_sparse),
        key_of(embedding.safe_embedding_lookup_sparse): _of_sparse_ids(embedding.safe_embedding_lookup_sparse),
    }
)


# Any function of values


@transactional
def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of `op` on the innermost values, in the rows of the RaggedTensors among its arguments.

    Args:
        op: a function that returns a tensor with as many elements along its first axis as those values have.
        *args: arguments of `op`; each RaggedTensor, also in a list, is replaced by its innermost values.
        **kwargs: more arguments.

    Raises:
        InvalidArgumentError: in the run at the latest: two RaggedTensors have different rows.
        ValueError: `op` returns another number of elements.

    Examples:
        >>> ragged = af.ragged.constant([[1, 2], [], [3]])
        >>> (await session.run(af.ragged.map_flat_values(lambda x: x * 10, ragged))).to_list()
        [[10, 20], [], [30]]
    """
    found = [item for value in (*args, *kwargs.values()) for item in _items(value) if isinstance(item, RaggedTensor)]
    if not found:
        return op(*args, **kwargs)
    if len({each.ragged_rank for each in found}) > 1:
        raise ValueError(f"the RaggedTensors have ragged ranks {', '.join(str(each.ragged_rank) for each in found)}")
    result = op(*[_flat(value) for value in args], **{name: _flat(value) for name, value in kwargs.items()})
    made = convert_to_tensor(result)
    made.shape.with_rank_at_least(1)
    made.shape[:1].assert_is_compatible_with(found[0].flat_values.shape[:1])
    return with_partitions(made, _common(found))


def _items(value: Any) -> list[Any]:
    return [item for each in value for item in _items(each)] if type(value) in (list, tuple) else [value]


def _flat(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_flat(item) for item in value)
    return value.flat_values if isinstance(value, RaggedTensor) else value


def _common(values: list[Any]) -> list[Any]:
    """The rows of all axes, which all values have."""
    parts = []
    while isinstance(values[0], RaggedTensor):
        parts.append(with_same_rows(values))
        values = [value.values for value in values]
    return parts
