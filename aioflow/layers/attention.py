"""Attention: each query gets the mean of values, weighted by how well it matches their keys [Vaswani et al. 2017]."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.ranges import range as counted
from aioflow.kernels.array.select import where
from aioflow.kernels.array.shapes import expand_dims, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import greater_equal, logical_and
from aioflow.kernels.math.elementwise import tanh
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.kernels.nn.softmax import softmax
from aioflow.layers import numbers
from aioflow.layers.layer import Layer, known_size
from aioflow.layers.masks import MASKED
from aioflow.layers.merging import several
from aioflow.layers.numbers import rate, switch
from aioflow.library.nn_functions import dropout
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import bool_
from aioflow.tensors.recursion import safe_repr


class _Attention(Layer):
    """Attention of queries over values, by scores that a subclass defines."""

    supports_masking = True

    def __init__(self, dropout: float = 0.0, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.dropout: Final = rate("dropout", dropout)
        self.seed: Final = numbers.seed(seed)

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
            weights = dropout(weights, rate=self.dropout, seed=self.seed)
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
    """Attention by the products of queries and keys [Luong et al. 2015]. `use_scale` multiplies them by a weight.

    With `score_mode` "concat" the scores are the sums of tanh(query + key), times a weight.

    Examples:
        >>> af.layers.Attention()([af.ones([2, 3, 4]), af.ones([2, 5, 4])]).shape
        TensorShape([2, 3, 4])
    """

    def __init__(
        self, use_scale: bool = False, score_mode: Literal["dot", "concat"] = "dot", dropout: float = 0.0,
        seed: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """ValueError for an unknown mode, or a rate outside of [0, 1)."""
        super().__init__(dropout, seed, **options)
        self.use_scale: Final = switch("use_scale", use_scale)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f"score_mode is 'dot' or 'concat', not {safe_repr(score_mode)}")
        self.score_mode: Final = score_mode

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        self.scale: Variable | None = self.add_weight("scale", [], initializer="ones") if self.use_scale else None
        concat = self.score_mode == "concat"
        self.concat_score_weight: Variable | None = (
            self.add_weight("concat_score_weight", [], initializer="ones") if concat else None
        )

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        if self.concat_score_weight is None:
            scores: Tensor = matmul(query, key, transpose_b=True)
            return scores if self.scale is None else scores * self.scale
        sums = expand_dims(query, 2) + expand_dims(key, 1)
        return reduce_sum(tanh(sums if self.scale is None else sums * self.scale), -1) * self.concat_score_weight


class AdditiveAttention(_Attention):
    """Attention by the sums of tanh(query + key) [Bahdanau et al. 2015]; `use_scale` has a weight for each element.

    Examples:
        >>> af.layers.AdditiveAttention()([af.ones([2, 3, 4]), af.ones([2, 5, 4])]).shape
        TensorShape([2, 3, 4])
    """

    def __init__(self, use_scale: bool = True, dropout: float = 0.0, seed: int | None = None, **options: Any) -> None:
        super().__init__(dropout, seed, **options)
        self.use_scale: Final = switch("use_scale", use_scale)

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        size = known_size(input_shape[0], -1)
        self.scale: Variable | None = self.add_weight("scale", [size]) if self.use_scale else None

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        matches = tanh(expand_dims(query, 2) + expand_dims(key, 1))
        return reduce_sum(matches if self.scale is None else matches * self.scale, -1)


def attended(scores: Tensor, mask: Any, causal: bool) -> Tensor:
    """The weights of values, [batch, n, m] or [batch, heads, n, m], given scores of that shape."""
    seen = None if mask is None else _beside(mask, scores)
    if causal:
        sizes = shape(scores)
        before = greater_equal(expand_dims(counted(sizes[-2]), 1), expand_dims(counted(sizes[-1]), 0))
        seen = before if seen is None else logical_and(seen, before)
    return softmax(scores if seen is None else where(seen, scores, scores * 0.0 + MASKED))


def _beside(given: Any, scores: Tensor) -> Tensor:
    """A mask as booleans, with the axes of the scores."""
    rank, mask = scores.shape.ndims or 3, as_booleans(given)
    while mask.shape.ndims is not None and mask.shape.ndims < rank:
        mask = expand_dims(mask, 1)
    return mask


def as_booleans(given: Any) -> Tensor:
    """A mask as booleans: numbers other than 0 are True."""
    return cast(convert_to_tensor(given), bool_)
