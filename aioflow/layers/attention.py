"""Attention: each query gets the mean of values, weighted by how well it matches their keys [Vaswani et al. 2017]."""

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.ranges import range as numbers
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.comparison import greater_equal, logical_and
from aioflow.kernels.math.elementwise import tanh
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn.softmax import softmax
from aioflow.layers.core import Dense
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.masks import MASKED, mask_of
from aioflow.layers.merging import several
from aioflow.layers.numbers import rate, whole
from aioflow.library.nn_functions import dropout


class _Attention(Layer):
    """Attention of queries over values, by scores that a subclass defines."""

    supports_masking = True

    def __init__(self, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.dropout: Final = rate("dropout", dropout)

    def call(
        self, inputs: Sequence[Tensor], mask: Any = None, use_causal_mask: bool = False,
        return_attention_scores: bool = False, training: bool = False,
    ) -> Any:  # fmt: skip
        """The mean of the values for each query.

        Args:
            inputs: queries [batch, n, size], values [batch, m, size], and keys [batch, m, size]; the values are the
                keys by default.
            mask: booleans [batch, m], [batch, n, m] or broadcast to it: which values a query may see; or a list of the
                masks of queries and values: the results of masked queries are zeros.
            use_causal_mask: whether query number i sees the values up to number i only.
            return_attention_scores: whether the weights [batch, n, m] are returned, too.
            training: whether weights are dropped.
        """
        query, value, *keys = several(inputs)
        query_mask, value_mask = mask[:2] if isinstance(mask, (list, tuple)) else (None, mask)
        scores = self._scores(query, keys[0] if keys else value)
        weights = attended(scores, value_mask, use_causal_mask)
        if training and self.dropout:
            weights = dropout(weights, rate=self.dropout)
        result: Tensor = matmul(weights, value)
        if query_mask is not None:
            result = where(expand_dims(query_mask, -1), result, zeros_like(result))
        return (result, weights) if return_attention_scores else result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """That of the queries."""
        return mask[0] if isinstance(mask, (list, tuple)) else None

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        raise NotImplementedError


class Attention(_Attention):
    """Attention by the products of queries and keys [Luong et al. 2015]. `use_scale` multiplies them by a weight."""

    def __init__(self, use_scale: bool = False, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(dropout, **options)
        self.use_scale: Final = use_scale

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        self.scale = self.add_weight("scale", [], initializer="ones") if self.use_scale else None

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        scores: Tensor = matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale


class AdditiveAttention(_Attention):
    """Attention by the sums of tanh(query + key) [Bahdanau et al. 2015]; `use_scale` has a weight for each element."""

    def __init__(self, use_scale: bool = True, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(dropout, **options)
        self.use_scale: Final = use_scale

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        size = known_size(input_shape[0], -1)
        self.scale = self.add_weight("scale", [size]) if self.use_scale else None

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        matches = tanh(expand_dims(query, 2) + expand_dims(key, 1))
        return reduce_sum(matches if self.scale is None else matches * self.scale, -1)


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
        kernel_initializer: that of the projections.
        bias_initializer: that of their biases.
    """

    supports_masking = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **options: Any,
    ) -> None:
        """ValueError for fewer than one head, or sizes below one."""
        super().__init__(**options)
        self.num_heads: Final = whole("num_heads", num_heads, 1)
        self.key_dim: Final = whole("key_dim", key_dim, 1)
        self.value_dim: Final = self.key_dim if value_dim is None else whole("value_dim", value_dim, 1)
        self.dropout: Final = rate("dropout", dropout)
        self._output_shape = output_shape
        self._dense = {
            "use_bias": use_bias,
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer,
        }
        self.query = Dense(num_heads * key_dim, name="query", **self._dense)
        self.key = Dense(num_heads * key_dim, name="key", **self._dense)
        self.value = Dense(num_heads * self.value_dim, name="value", **self._dense)

    def build(self, input_shape: Any) -> None:
        """Make the projection of the results."""
        size = self._output_shape or known_size(one_shape(input_shape, 3), -1)
        self.output = Dense(size, name="output", **self._dense)

    def call(
        self, query: Tensor, value: Any = None, key: Any = None, attention_mask: Any = None,
        use_causal_mask: bool = False, return_attention_scores: bool = False, training: bool = False,
    ) -> Any:  # fmt: skip
        """The result for each query.

        Args:
            query: [batch, n, size].
            value: [batch, m, size]; the queries by default, which is self-attention.
            key: [batch, m, size]; the values by default.
            attention_mask: booleans [batch, m], [batch, n, m] or broadcast to it: which values a query may see.
            use_causal_mask: whether query number i sees the values up to number i only.
            return_attention_scores: whether the weights [batch, heads, n, m] are returned, too.
            training: whether weights are dropped.
        """
        value = query if value is None else value
        key = value if key is None else key
        q = self._heads(self.query(query), self.key_dim) * (1.0 / math.sqrt(self.key_dim))
        k, v = self._heads(self.key(key), self.key_dim), self._heads(self.value(value), self.value_dim)
        masks = _seen(mask_of(query), mask_of(value), None if key is value else mask_of(key), attention_mask)
        weights = attended(matmul(q, k, transpose_b=True), masks, use_causal_mask)
        kept = dropout(weights, rate=self.dropout) if training and self.dropout else weights
        together = transpose(matmul(kept, v), [0, 2, 1, 3])
        flat = reshape(together, concat([shape(together)[:2], [self.num_heads * self.value_dim]], 0))
        flat.set_shape([*query.shape.as_list()[:2], self.num_heads * self.value_dim])
        result = self.output(flat)
        return (result, weights) if return_attention_scores else result

    def _heads(self, x: Tensor, size: int) -> Tensor:
        """[batch, heads, n, size]."""
        apart = reshape(x, concat([shape(x)[:2], [self.num_heads, size]], 0))
        apart.set_shape([*x.shape.as_list()[:2], self.num_heads, size])
        return transpose(apart, [0, 2, 1, 3])


def _seen(query: Tensor | None, value: Tensor | None, key: Tensor | None, given: Any) -> Tensor | None:
    """What each query may see, [batch, n, m] or broadcast to it: what all of the masks keep."""
    of_values = [expand_dims(mask, -2) for mask in (value, key) if mask is not None]
    masks = [*([] if query is None else [expand_dims(query, -1)]), *of_values]
    if given is not None:
        own = convert_to_tensor(given)
        masks.append(expand_dims(own, -2) if own.shape.ndims == 2 and masks else own)
    return functools.reduce(logical_and, masks) if masks else None


def attended(scores: Tensor, mask: Any, causal: bool) -> Tensor:
    """The weights of values, [batch, n, m] or [batch, heads, n, m], given scores of that shape."""
    seen = None if mask is None else _beside(mask, scores)
    if causal:
        sizes = shape(scores)
        before = greater_equal(expand_dims(numbers(sizes[-2]), 1), expand_dims(numbers(sizes[-1]), 0))
        seen = before if seen is None else logical_and(seen, before)
    return softmax(scores if seen is None else where(seen, scores, scores * 0.0 + MASKED))


def _beside(given: Any, scores: Tensor) -> Tensor:
    """A mask with the axes of the scores."""
    rank, mask = scores.shape.ndims or 3, convert_to_tensor(given)
    while mask.shape.ndims is not None and mask.shape.ndims < rank:
        mask = expand_dims(mask, 1)
    return mask
