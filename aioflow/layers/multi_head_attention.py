"""Attention of several heads [Vaswani et al. 2017]."""

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat, stack
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.comparison import logical_and
from aioflow.kernels.math.reduction import reduce_prod
from aioflow.layers import by_name, numbers
from aioflow.layers.attention import as_booleans, attended
from aioflow.layers.core import Dense
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.masks import mask_of
from aioflow.layers.numbers import axes, rate, whole
from aioflow.library.arrays import repeat
from aioflow.library.nn_functions import dropout


class MultiHeadAttention(Layer):
    """Attention of several heads, each over projections of its own, and a projection of their results.

    The weights are those of the dense layers `query`, `key`, `value` and `output`. Masks of queries, values and keys
    leave out what they mask, and the result has that of the queries.

    Args:
        num_heads: the number of heads.
        key_dim: the size of queries and keys of each head.
        value_dim: the size of values of each head; `key_dim` by default.
        dropout: the rate at which weights are dropped in training.
        use_bias: whether the projections have a bias.
        output_shape: the size of the result; that of the queries by default.
        attention_axes: the axes along which queries see values, such as 2 for the columns of [batch, rows, columns,
            size], each row by itself; all but the first and the last by default.
        kernel_initializer: that of the projections; so are the other arguments for kernels, and those for biases.

    Examples:
        >>> x = af.ones([2, 5, 8])
        >>> af.layers.MultiHeadAttention(num_heads=2, key_dim=4)(x, x).shape
        TensorShape([2, 5, 8])
    """

    supports_masking = casts_integers = True
    _sharing = 1
    """The number of heads of queries that share a head of keys and values."""

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | None = None,
        attention_axes: int | Sequence[int] | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """ValueError for fewer than one head, or sizes below one; TypeError for axes that are not whole numbers."""
        super().__init__(**options)
        self.num_heads: Final = whole("num_heads", num_heads, 1)
        self.key_dim: Final = whole("key_dim", key_dim, 1)
        self.value_dim: Final = self.key_dim if value_dim is None else whole("value_dim", value_dim, 1)
        self.dropout: Final = rate("dropout", dropout)
        self.seed: Final = numbers.seed(seed)
        self.attention_axes: Final = None if attention_axes is None else axes("attention_axes", attention_axes)
        self._output_shape: Final = None if output_shape is None else whole("output_shape", output_shape, 1)
        self._activity = by_name.regularizer(activity_regularizer)
        self._dense = {
            "use_bias": use_bias,
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer,
            "kernel_regularizer": kernel_regularizer,
            "bias_regularizer": bias_regularizer,
            "kernel_constraint": kernel_constraint,
            "bias_constraint": bias_constraint,
            "dtype": self.dtype,
        }
        self.query: Dense = Dense(self.num_heads * self.key_dim, name="query", **self._dense)
        self.key: Dense = Dense(self.num_heads * self.key_dim, name="key", **self._dense)
        self.value: Dense = Dense(self.num_heads * self.value_dim, name="value", **self._dense)

    def build(self, input_shape: Any) -> None:
        """Make the projection of the results. ValueError for axes that the inputs do not have."""
        given = one_shape(input_shape)
        if given.ndims is None or given.ndims < 3:
            raise ValueError(f"an input of rank 3 or more is wanted, its shape is {given}")
        for axis in self.attention_axes or ():
            if not 0 < axis % given.ndims < given.ndims - 1 or not -given.ndims <= axis < given.ndims:
                raise ValueError(f"attention_axes lie between the first and the last axis of {given}, not {axis}")
        size = self._output_shape or known_size(given, -1)
        self.output: Dense = Dense(size, name="output", **self._dense)

    def call(
        self, query: Tensor, value: Any = None, key: Any = None, attention_mask: Any = None,
        use_causal_mask: bool = False, return_attention_scores: bool = False, training: bool = False,
    ) -> Any:  # fmt: skip
        """The result for each query.

        Args:
            query: [batch, n, size], or with more axes between.
            value: [batch, m, size]; the queries by default, which is self-attention.
            key: [batch, m, size]; the values by default.
            attention_mask: which values a query may see: booleans [batch, m], [batch, n, m] or broadcast to it. With
                more axes n and m are products of the sizes of `attention_axes`, and other axes count as batch.
            use_causal_mask: whether query number i sees the values up to number i only.
            return_attention_scores: whether the weights [batch, heads, n, m] are returned, too.
            training: whether weights are dropped.
        """
        value = query if value is None else value
        key = value if key is None else key
        along = self._along(query)
        q, k, v = [_folded(dense(x), along) for dense, x in ((self.query, query), (self.key, key), (self.value, value))]
        q, k, v = [self._heads(x, size) for x, size in ((q, self.key_dim), (k, self.key_dim), (v, self.value_dim))]
        masks = _seen(mask_of(query), mask_of(value), None if key is value else mask_of(key), attention_mask)
        weights = attended(matmul(q * (1.0 / math.sqrt(self.key_dim)), k, transpose_b=True), masks, use_causal_mask)
        kept = dropout(weights, rate=self.dropout, seed=self.seed) if training and self.dropout else weights
        result = self.output(_unfolded(self._together(matmul(kept, v)), query, along))
        self.add_activity(self._activity, result)
        return (result, weights) if return_attention_scores else result

    def _along(self, query: Tensor) -> list[int]:
        """The axes along which queries see values, ascending."""
        rank = len(query.shape.as_list())
        chosen = range(1, rank - 1) if self.attention_axes is None else self.attention_axes
        return sorted({axis % rank for axis in chosen})

    def _heads(self, x: Tensor, size: int) -> Tensor:
        """[batch, heads, n, size]; a head that several others share is repeated for these."""
        count = known_size(x.shape, -1) // size
        apart = reshape(x, concat([shape(x)[:2], [count, size]], 0))
        apart.set_shape([*x.shape.as_list()[:2], count, size])
        heads = transpose(apart, [0, 2, 1, 3])
        return heads if count == self.num_heads else repeat(heads, self._sharing, 1)

    def _together(self, x: Tensor) -> Tensor:
        """[batch, n, heads * size]."""
        beside = transpose(x, [0, 2, 1, 3])
        flat = reshape(beside, concat([shape(beside)[:2], [self.num_heads * self.value_dim]], 0))
        flat.set_shape([*beside.shape.as_list()[:2], self.num_heads * self.value_dim])
        return flat


class GroupQueryAttention(MultiHeadAttention):
    """Attention in which groups of heads of queries share a head of keys and values [Ainslie et al. 2023].

    The weights are those of `MultiHeadAttention`, with fewer columns for keys and values.

    Args:
        head_dim: the size of each head.
        num_query_heads: the number of heads of queries.
        num_key_value_heads: the number of heads of keys and values, which divides that of queries.
        options: those of `MultiHeadAttention`, such as `dropout`.

    Examples:
        >>> layer = af.layers.GroupQueryAttention(head_dim=8, num_query_heads=4, num_key_value_heads=2)
        >>> x = np.ones((2, 5, 16), np.float32)
        >>> layer(x, x).shape
        TensorShape([2, 5, 16])
    """

    def __init__(self, head_dim: int, num_query_heads: int, num_key_value_heads: int, **options: Any) -> None:
        """ValueError for fewer than one head, or heads that cannot be shared."""
        super().__init__(num_query_heads, head_dim, **options)
        count = whole("num_key_value_heads", num_key_value_heads, 1)
        self._sharing, left = divmod(self.num_heads, count)
        if left:
            raise ValueError(f"{num_query_heads} heads of queries cannot share {count} heads of keys and values")
        self.key: Dense = Dense(count * self.key_dim, name="key", **self._dense)
        self.value: Dense = Dense(count * self.key_dim, name="value", **self._dense)


def _folded(x: Tensor, along: Sequence[int]) -> Tensor:
    """[batch, n, size]: the axes `along` become one, all others but the last become part of the batch."""
    known = x.shape.as_list()
    if len(known) == 3:
        return x
    others = [axis for axis in range(len(known) - 1) if axis not in along]
    ordered = transpose(x, [*others, *along, len(known) - 1])
    sizes = shape(ordered)[len(others) : -1]
    made = reshape(ordered, stack([-1, reduce_prod(sizes), known_size(x.shape, -1)]))
    counts = [size for axis in along if (size := known[axis]) is not None]
    made.set_shape([None, math.prod(counts) if len(counts) == len(along) else None, known[-1]])
    return made


def _unfolded(x: Tensor, like: Tensor, along: Sequence[int]) -> Tensor:
    """The opposite, for the axes of another tensor."""
    known = like.shape.as_list()
    if len(known) == 3:
        return x
    order = [*[axis for axis in range(len(known) - 1) if axis not in along], *along]
    sizes = shape(like)
    apart = reshape(x, stack([*[sizes[axis] for axis in order], known_size(x.shape, -1)]))
    made = transpose(apart, [*[order.index(axis) for axis in range(len(order))], len(order)])
    made.set_shape([*known[:-1], x.shape.as_list()[-1]])
    return made


def _seen(query: Tensor | None, value: Tensor | None, key: Tensor | None, given: Any) -> Tensor | None:
    """What each query may see, [batch, n, m] or broadcast to it: what all of the masks keep."""
    of_values = [expand_dims(mask, -2) for mask in (value, key) if mask is not None]
    masks = [*([] if query is None else [expand_dims(query, -1)]), *of_values]
    if given is not None:
        own = as_booleans(given)
        masks.append(expand_dims(own, -2) if own.shape.ndims == 2 and masks else own)
    return functools.reduce(logical_and, masks) if masks else None
