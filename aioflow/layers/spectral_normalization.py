"""Weights divided by their spectral norm, so that a layer enlarges no difference of inputs [Miyato et al. 2018]."""

from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.layers.layer import Layer
from aioflow.layers.numbers import whole
from aioflow.library.initializers import TruncatedNormal
from aioflow.library.nn_functions import l2_normalize
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr


class SpectralNormalization(Layer):
    """A layer whose `kernel`, or `embeddings`, are divided by their spectral norm in each step of training.

    The norm is found by power iteration from the weight `vector_u` [1, last size], which the step moves.

    Args:
        layer: the layer.
        power_iterations: the number of iterations in a step.

    Examples:
        >>> af.layers.SpectralNormalization(af.layers.Dense(4))(af.ones([2, 3])).shape
        TensorShape([2, 4])
    """

    def __init__(self, layer: Layer, power_iterations: int = 1, **options: Any) -> None:
        """TypeError for something that is no layer, ValueError for fewer iterations than one."""
        super().__init__(**options)
        if not isinstance(layer, Layer):
            raise TypeError(f"a layer is normalized, not {safe_repr(layer)}")
        self.layer: Final = layer
        self.power_iterations: Final = whole("power_iterations", power_iterations, 1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The result of the layer. ValueError if it has neither `kernel` nor `embeddings`."""
        if not self.layer.built:
            self.layer.build_once(inputs)
        if not hasattr(self, "vector_u"):
            size = self._weight.shape.as_list()[-1]
            first = TruncatedNormal(0.0, 0.02)
            self._own.append(self._weight)  # its weights begin with this one, as in Keras
            self.vector_u = self.add_weight("vector_u", [1, size], self._weight.dtype, first, trainable=False)
        if training:
            weight, vector = self._weight, self.vector_u
            moved, normal = self._normalized(weight, vector)
            self.add_update(vector.assign(moved).op)
            self.add_update(weight.assign(normal).op)
        return self.layer(inputs, training=training)

    @property
    def _weight(self) -> Variable:
        found = getattr(self.layer, "kernel", getattr(self.layer, "embeddings", None))
        if not isinstance(found, Variable):
            raise ValueError(f"{self.layer.name!r} has neither a kernel nor embeddings to normalize")
        return found

    def _normalized(self, weight: Variable, vector: Variable) -> tuple[Tensor, Tensor]:
        """The vector after the iterations, and the weight over its norm."""
        sizes = weight.shape.as_list()
        matrix, u = reshape(weight, [-1, sizes[-1]]), vector.value()
        for _ in range(self.power_iterations):
            v = l2_normalize(matmul(u, matrix, transpose_b=True))
            u = l2_normalize(matmul(v, matrix))
        norm = matmul(matmul(v, matrix), u, transpose_b=True)
        return u, reshape(matrix / norm, sizes)
