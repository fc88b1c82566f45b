"""An embedding that also leads back, from rows to a score for each id, as the output of a language model needs."""

from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import tanh
from aioflow.layers.core import Embedding
from aioflow.layers.masks import give_masks
from aioflow.layers.numbers import number, switch
from aioflow.tensors.dtypes import DTypeLike, as_dtype


class ReversibleEmbedding(Embedding):
    """An embedding that is called for ids [...], or with `reverse=True` for rows [..., output_dim].

    The weights are `embeddings` [input_dim, output_dim], and with `tie_weights=False` also `reverse_embeddings`
    [output_dim, input_dim].

    Args:
        input_dim: the number of ids.
        output_dim: the size of a row.
        tie_weights: whether both directions have the same weight.
        embeddings_initializer: the initializer of the weights.
        embeddings_regularizer: the regularizer of `embeddings`.
        embeddings_constraint: the constraint of `embeddings`.
        mask_zero: whether 0 is no id, and its places are masked.
        reverse_dtype: the dtype of the scores; that of the rows by default.
        logit_soft_cap: scores lie between this number and its negative.

    Examples:
        >>> embedding = af.layers.ReversibleEmbedding(10, 4)
        >>> embedding(embedding(af.constant([[4, 7, 1]])), reverse=True).shape
        TensorShape([1, 3, 10])
    """

    def __init__(
        self, input_dim: int, output_dim: int, tie_weights: bool = True, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
        reverse_dtype: DTypeLike | None = None, logit_soft_cap: float | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """ValueError for sizes below one."""
        chosen = embeddings_initializer, embeddings_regularizer, embeddings_constraint
        super().__init__(input_dim, output_dim, *chosen, mask_zero, **options)
        self.supports_masking = False  # `call` gives the mask of ids itself: rows have none
        self.tie_weights: Final = switch("tie_weights", tie_weights)
        self.reverse_dtype: Final = None if reverse_dtype is None else as_dtype(reverse_dtype)
        self.logit_soft_cap: Final = None if logit_soft_cap is None else number("logit_soft_cap", logit_soft_cap)

    def build(self, input_shape: Any) -> None:
        """Make the rows, for both directions."""
        super().build(input_shape)
        if not self.tie_weights:
            sizes = [self.output_dim, self.input_dim]
            self.reverse_embeddings = self.add_weight("reverse_embeddings", sizes, None, self._options.initializer)

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        """The rows of the ids; or the scores of all ids for rows."""
        if reverse:
            return self._scores(inputs)
        rows = super().call(inputs)
        if self.mask_zero:
            give_masks(rows, self.compute_mask(inputs))
        return rows

    def _scores(self, rows: Tensor) -> Tensor:
        kernel = transpose(self.embeddings) if self.tie_weights else self.reverse_embeddings.value()
        if self.reverse_dtype is not None:
            rows, kernel = cast(rows, self.reverse_dtype), cast(kernel, self.reverse_dtype)
        scores = tensordot(rows, kernel, 1)
        return scores if self.logit_soft_cap is None else tanh(scores / self.logit_soft_cap) * self.logit_soft_cap
