"""Initializers of variables: objects called with a shape and a dtype that return a tensor."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np

from aioflow.graph.convert import NumberLike, TensorLike
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import constants
from aioflow.kernels.array.arrays import matrix_transpose
from aioflow.kernels.array.constants import eye, fill
from aioflow.kernels.array.shapes import reshape
from aioflow.kernels.linalg.decompositions import qr
from aioflow.kernels.linalg.diagonals import matrix_diag_part
from aioflow.kernels.math import random
from aioflow.kernels.math.elementwise import sign
from aioflow.lazy import Face
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, TensorShape, as_dtype
from aioflow.tensors.recursion import safe_repr

Draw = Callable[..., Tensor]
"""(shape, a, b, dtype, seed=) -> random numbers."""

Shape: TypeAlias = Sequence[int] | TensorShape
"""The shape of an initial value; every size is known."""


class Initializer:
    """Creates initial values. A subclass defines `__call__`.

    Examples:
        >>> weights = af.get_variable("weights", [2], initializer=af.constant_initializer(3.0))
        >>> await session.run(weights.initializer)
        >>> await session.run(weights)
        array([3., 3.], dtype=float32)
    """

    dtype: DType = dtypes.float32

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal initializer, as {name of the parameter: value}; a dtype is its name.

        Examples:
            >>> af.zeros_initializer().get_config()
            {'dtype': 'float32'}
        """
        names = [name for name in inspect.signature(type(self)).parameters if hasattr(self, name)]
        return {name: self.dtype.name if name == "dtype" else getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the initializer of `get_config`.

        Examples:
            >>> af.constant_initializer.from_config({"value": 3, "dtype": "float32"}).value
            3
        """
        return cls(**config)

    def _dtype(self, dtype: Any) -> DType:
        return self.dtype if dtype is None else as_dtype(dtype)


class Constant(Initializer):
    """One value everywhere, or the values of an array or list, whose last value is repeated.

    Examples:
        >>> await session.run(af.constant_initializer(0.5)([2]))
        array([0.5, 0.5], dtype=float32)
    """

    def __init__(self, value: TensorLike = 0, dtype: DTypeLike = dtypes.float32, verify_shape: bool = False) -> None:
        self.value: Final[Any] = value
        self.dtype: DType = as_dtype(dtype)
        self._verify = verify_shape

    def __call__(
        self,
        shape: Shape,
        dtype: DTypeLike | None = None,
        partition_info: None = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        """Return a tensor of that shape. ValueError if the value has another and `verify_shape` is set."""
        wanted = self._dtype(dtype)
        if np.ndim(self.value) == 0:
            return fill(shape, constants.constant(self.value, wanted))
        verify = self._verify if verify_shape is None else verify_shape
        return constants.constant(self.value, wanted, shape, verify_shape=verify)


class Zeros(Initializer):
    """Zeros: false for bools, empty for strings.

    Examples:
        >>> await session.run(af.zeros_initializer()([2]))
        array([0., 0.], dtype=float32)
    """

    def __init__(self, dtype: DTypeLike = dtypes.float32) -> None:
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        wanted = self._dtype(dtype)
        return fill(shape, constants.constant("" if wanted is dtypes.string else wanted.np.type(0), wanted))


class Ones(Initializer):
    """Ones: true for bools.

    Examples:
        >>> await session.run(af.ones_initializer()([2]))
        array([1., 1.], dtype=float32)
    """

    def __init__(self, dtype: DTypeLike = dtypes.float32) -> None:
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        wanted = self._dtype(dtype)
        return fill(shape, constants.constant(wanted.np.type(1), wanted))


class Identity(Initializer):
    """A matrix with `gain` on its diagonal and zeros elsewhere.

    Examples:
        >>> await session.run(af.identity_initializer()([2, 2]))
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """

    def __init__(self, gain: float = 1.0, dtype: DTypeLike = dtypes.float32) -> None:
        self.gain: Final = gain
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape. ValueError unless it has rank 2."""
        if len(shape) != 2:
            raise ValueError(f"an identity matrix has two axes, not shape {list(shape)}")
        rows, columns = shape
        return self.gain * eye(rows, columns, dtype=self._dtype(dtype))


class _RandomInitializer(Initializer):
    """Random numbers of a distribution with two parameters."""

    draw: Draw

    def __init__(self, first: Any, second: Any, seed: int | None, dtype: DTypeLike) -> None:
        self.parameters: Final = first, second
        self.seed: Final = seed
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        return type(self).draw(shape, *self.parameters, self._dtype(dtype), seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal initializer, as {name of the parameter: value}."""
        names = list(inspect.signature(type(self)).parameters)
        return {**dict(zip(names, self.parameters, strict=False)), **super().get_config()}


class RandomUniform(_RandomInitializer):
    """Uniformly distributed numbers from `minval` to `maxval`, exclusive; `maxval` is 1 by default for floats.

    Examples:
        >>> af.random_uniform_initializer(-0.1, 0.1)([3, 3]).shape
        TensorShape([3, 3])
    """

    draw = staticmethod(random.random_uniform)

    def __init__(
        self,
        minval: NumberLike = 0,
        maxval: NumberLike | None = None,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(minval, maxval, seed, dtype)


class RandomNormal(_RandomInitializer):
    """Normally distributed numbers.

    Examples:
        >>> af.random_normal_initializer(stddev=0.1)([3, 3]).shape
        TensorShape([3, 3])
    """

    draw = staticmethod(random.random_normal)

    def __init__(
        self,
        mean: NumberLike = 0.0,
        stddev: NumberLike = 1.0,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class TruncatedNormal(_RandomInitializer):
    """Normally distributed numbers within two standard deviations of the mean.

    Examples:
        >>> af.truncated_normal_initializer(stddev=0.1)([3, 3]).shape
        TensorShape([3, 3])
    """

    draw = staticmethod(random.truncated_normal)

    def __init__(
        self,
        mean: NumberLike = 0.0,
        stddev: NumberLike = 1.0,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


_FANS: Final[dict[str, Callable[[float, float], float]]] = {
    "fan_in": lambda into, out: into,
    "fan_out": lambda into, out: out,
    "fan_avg": lambda into, out: (into + out) / 2,
}
_CUT: Final = 0.87962566103423978
"""The standard deviation of a normal distribution truncated at two standard deviations."""


class VarianceScaling(Initializer):
    """Random numbers of variance `scale` / n, where n is the number of inputs or outputs of a unit, or their mean.

    Args:
        scale: a positive number.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "truncated_normal" (also "normal"), "untruncated_normal" or "uniform".
        seed: makes the numbers the same in every session.
        dtype: a floating dtype.

    Raises:
        ValueError: an argument is none of these.

    Examples:
        >>> af.variance_scaling_initializer()([3, 3]).shape
        TensorShape([3, 3])
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        if scale <= 0:
            raise ValueError(f"scale must be positive, not {scale}")
        if mode not in _FANS:
            raise ValueError(f"mode must be one of {', '.join(_FANS)}, not {safe_repr(mode)}")
        if distribution not in ("normal", "truncated_normal", "untruncated_normal", "uniform"):
            raise ValueError(
                f"distribution is truncated_normal, untruncated_normal or uniform, not {safe_repr(distribution)}"
            )
        self.dtype: DType = as_dtype(dtype)
        if not self.dtype.is_floating:
            raise ValueError(f"random initial values must be floating, not {self.dtype.name}")
        self.scale: Final = scale
        self.mode: Final = mode
        self.distribution: Final = distribution
        self.seed: Final = seed

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        deviation = math.sqrt(self.scale / max(1.0, _FANS[self.mode](*_fans(shape))))
        wanted = self._dtype(dtype)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0) * deviation
            return random.random_uniform(shape, -limit, limit, wanted, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random.random_normal(shape, 0.0, deviation, wanted, seed=self.seed)
        return random.truncated_normal(shape, 0.0, deviation / _CUT, wanted, seed=self.seed)


def _fans(shape: Shape) -> tuple[float, float]:
    """Return the numbers of inputs and outputs of a unit: the sizes of a matrix, times the extent of a filter."""
    if len(shape) < 2:
        size = float(shape[0]) if len(shape) else 1.0
        return size, size
    *extent, into, out = shape
    return float(into * math.prod(extent)), float(out * math.prod(extent))


class Orthogonal(Initializer):
    """A random matrix whose rows or columns, whichever are fewer, are orthogonal and have the norm `gain`.

    All such matrices are equally likely [Saxe et al., 2013]. A filter is a matrix of its last axis by all others.

    Examples:
        >>> af.orthogonal_initializer()([3, 3]).shape
        TensorShape([3, 3])
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        self.gain: Final = gain
        self.seed: Final = seed
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape. ValueError unless it has rank 2 or more."""
        sizes = [int(size) for size in shape]
        if len(sizes) < 2:
            raise ValueError(f"an orthogonal matrix has two axes or more, not shape {sizes}")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        normal = random.random_normal(
            [max(rows, columns), min(rows, columns)], dtype=self._dtype(dtype), seed=self.seed
        )
        q, r = qr(normal)
        q *= sign(matrix_diag_part(r))  # or else the signs would not be random
        return self.gain * reshape(matrix_transpose(q) if rows < columns else q, sizes)


class UniformUnitScaling(Initializer):
    """Uniform between ±factor * √(3 / n), where n is the number of inputs of a unit [Sussillo and Abbott, 2014].

    Examples:
        >>> af.uniform_unit_scaling_initializer()([3, 3]).shape
        TensorShape([3, 3])
    """

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        self.factor: Final = factor
        self.seed: Final = seed
        self.dtype: DType = as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, partition_info: None = None) -> Tensor:
        """Return a tensor of that shape, and of that dtype or else the initializer's."""
        limit = self.factor * math.sqrt(3 / max(1, math.prod([int(size) for size in shape][:-1])))
        return random.random_uniform(shape, -limit, limit, self._dtype(dtype), seed=self.seed)


class GlorotUniform(VarianceScaling):
    """Uniform between ±√(6 / (in + out)) [Glorot and Bengio, 2010].

    Examples:
        >>> bool((abs(await session.run(af.glorot_uniform_initializer()([3, 3]))) <= 1).all())
        True
    """

    def __init__(self, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Normal with the variance 2 / (in + out) [Glorot and Bengio, 2010].

    Examples:
        >>> af.glorot_normal_initializer()([3, 3]).shape
        TensorShape([3, 3])
    """

    def __init__(self, seed: int | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Normal with the variance 2 / in, for layers that relu follows [He et al., 2015].

    Examples:
        >>> af.initializers.he_normal()([3, 3]).shape
        TensorShape([3, 3])
    """
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform with the variance 2 / in, for layers that relu follows [He et al., 2015].

    Examples:
        >>> af.initializers.he_uniform()([3, 3]).shape
        TensorShape([3, 3])
    """
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Normal with the variance 1 / in [LeCun et al., 1998].

    Examples:
        >>> af.initializers.lecun_normal()([3, 3]).shape
        TensorShape([3, 3])
    """
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform with the variance 1 / in [LeCun et al., 1998].

    Examples:
        >>> af.initializers.lecun_uniform()([3, 3]).shape
        TensorShape([3, 3])
    """
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def default_for(dtype: DType) -> Callable[..., Tensor]:
    """Return the default initializer of `get_variable`."""
    if dtype.is_floating:
        return GlorotUniform(dtype=dtype)
    if dtype.is_integer or dtype.is_bool or dtype is dtypes.string:
        return Zeros(dtype)
    raise ValueError(f"a variable of dtype {dtype.name} needs an initializer")


zeros_initializer: Final = Zeros
ones_initializer: Final = Ones
constant_initializer: Final = Constant
random_uniform_initializer: Final = RandomUniform
random_normal_initializer: Final = RandomNormal
truncated_normal_initializer: Final = TruncatedNormal
variance_scaling_initializer: Final = VarianceScaling
glorot_uniform_initializer: Final = GlorotUniform
glorot_normal_initializer: Final = GlorotNormal
identity_initializer: Final = Identity
orthogonal_initializer: Final = Orthogonal
uniform_unit_scaling_initializer: Final = UniformUnitScaling

# The names in TensorFlow's `initializers`
zeros: Final = Zeros
ones: Final = Ones
constant: Final = Constant
identity: Final = Identity
orthogonal: Final = Orthogonal
random_uniform: Final = RandomUniform
random_normal: Final = RandomNormal
truncated_normal: Final = TruncatedNormal
variance_scaling: Final = VarianceScaling
uniform_unit_scaling: Final = UniformUnitScaling
glorot_uniform: Final = GlorotUniform
glorot_normal: Final = GlorotNormal

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "Identity", "Initializer", "Ones", "Orthogonal", "RandomNormal",
    "RandomUniform", "TruncatedNormal", "UniformUnitScaling", "VarianceScaling", "Zeros", "constant",
    "constant_initializer", "glorot_normal", "glorot_normal_initializer", "glorot_uniform",
    "glorot_uniform_initializer", "he_normal", "he_uniform", "identity", "identity_initializer", "lecun_normal",
    "lecun_uniform", "ones", "ones_initializer", "orthogonal", "orthogonal_initializer", "random_normal",
    "random_normal_initializer", "random_uniform", "random_uniform_initializer", "truncated_normal",
    "truncated_normal_initializer", "uniform_unit_scaling", "uniform_unit_scaling_initializer", "variance_scaling",
    "variance_scaling_initializer", "zeros", "zeros_initializer",
]  # fmt: skip
Face(__name__, {
    __name__: " ".join(__all__),
    "aioflow.library.state": (
        "global_variables=global_variables_initializer local_variables=local_variables_initializer "
        "variables=variables_initializer"
    ),
    "aioflow.library.table_initializers": "tables_initializer",
})  # fmt: skip
