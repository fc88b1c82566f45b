"""Layers that normalise: over the batch, over each element, over groups of channels, to a length."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import ones_like
from aioflow.kernels.array.shapes import reshape, shape
from aioflow.kernels.families import NARROW
from aioflow.kernels.math.arithmetic import multiply, squared_difference
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.elementwise import rsqrt, square
from aioflow.kernels.math.no_nan import div_no_nan, multiply_no_nan
from aioflow.kernels.math.reduction import reduce_mean, reduce_sum
from aioflow.kernels.nn.normalisation import fused_batch_norm, statistics_dtype
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.masks import with_axes
from aioflow.layers.numbers import at_least, axes, fraction, switch, whole
from aioflow.library.nn_functions import batch_normalization, l2_normalize, layer_normalization
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import float32


class BatchNormalization(Layer):
    """Normalises each channel to mean 0 and variance 1 over the batch, times gamma, plus beta [Ioffe and Szegedy 2015].

    In training, mean and variance are those of the batch, and the moving ones are updated: the new moving mean is
    `momentum` times the old one plus `1 - momentum` times that of the batch, a sum divided by the number of elements,
    not by one less. Otherwise the moving ones are used. The
    weights are `gamma`, `beta`, `moving_mean` and `moving_variance`, all of the size of the axis of channels.

    Examples:
        >>> layer = af.layers.BatchNormalization()
        >>> layer(af.ones([8, 4]), training=True).shape, len(layer.trainable_weights)
        (TensorShape([8, 4]), 2)
    """

    supports_masking = casts_integers = True

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **options: Any,
    ) -> None:
        """ValueError for a momentum outside of [0, 1], an epsilon below 0, or an unknown name."""
        super().__init__(**options)
        self.axis: Final = whole("axis", axis, None)
        self.momentum: Final = fraction("momentum", momentum)
        self.epsilon: Final = at_least("epsilon", epsilon, 0)
        self._gamma_options = by_name.weight(gamma_initializer, gamma_regularizer, gamma_constraint)
        self._beta_options = by_name.weight(beta_initializer, beta_regularizer, beta_constraint)
        self._moving = tuple(map(by_name.initializer, (moving_mean_initializer, moving_variance_initializer)))
        self._uses = switch("scale", scale), switch("center", center)

    def build(self, input_shape: Any) -> None:
        """Make the weights of each channel. ValueError for the axis of the batch."""
        given = one_shape(input_shape)
        size = [known_size(given, self.axis)]
        if given.ndims is not None and self.axis % given.ndims == 0:
            raise ValueError(f"the channels are an axis after the batch, not axis {self.axis} of {given}")
        scale, center = self._uses
        self.gamma: Variable | None = self.add_weight("gamma", size, None, *self._gamma_options) if scale else None
        self.beta: Variable | None = self.add_weight("beta", size, None, *self._beta_options) if center else None
        mean, variance = self._moving
        self.moving_mean: Variable = self.add_weight("moving_mean", size, initializer=mean, trainable=False)
        self.moving_variance: Variable = self.add_weight("moving_variance", size, initializer=variance, trainable=False)

    def call(self, inputs: Tensor, mask: Any = None, training: bool = False) -> Tensor:
        """The result. ValueError for an axis that the inputs do not have.

        In training masked steps count neither for the mean nor for the variance.
        """
        rank = len(inputs.shape.as_list())
        axis = self.axis % rank
        if axis in (1, rank - 1):
            return self._normalised(inputs, axis, mask, training)
        order = [*[each for each in range(rank) if each != axis], axis]
        moved = self._normalised(transpose(inputs, order), rank - 1, mask, training)
        return transpose(moved, [order.index(each) for each in range(rank)])

    def _normalised(self, inputs: Tensor, axis: int, mask: Any, training: bool) -> Tensor:
        """The result for channels that are the last axis or axis 1."""
        layout = "NHWC" if axis == len(inputs.shape.as_list()) - 1 else "NCHW"
        size = [known_size(inputs.shape, axis)]
        gamma = np.ones(size, self.dtype.np) if self.gamma is None else self.gamma
        beta = np.zeros(size, self.dtype.np) if self.beta is None else self.beta
        if not (training and self.trainable):
            moving = self.moving_mean, self.moving_variance
            return fused_batch_norm(inputs, gamma, beta, *moving, self.epsilon, layout, is_training=False)[0]
        if mask is None:
            outputs, mean, _ = fused_batch_norm(inputs, gamma, beta, None, None, self.epsilon, layout)
            variance = outputs.op.outputs[-1]
        else:
            outputs, mean, variance = self._of_kept(inputs, axis, mask, gamma, beta)
        self._move(self.moving_mean, mean)
        self._move(self.moving_variance, variance)
        return outputs

    def _of_kept(
        self, inputs: Tensor, channels: int, mask: Tensor, gamma: Any, beta: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The result, and the mean and the variance of each channel over the elements that the mask keeps."""
        rank, kept = len(inputs.shape.as_list()), with_axes(mask, inputs)
        others = [axis for axis in range(rank) if axis != channels]
        mean, variance = _moments_of_kept(inputs, kept, others)
        sizes = [-1 if axis == channels else 1 for axis in range(rank)]
        offset, scale = reshape(beta, sizes), reshape(gamma, sizes)
        outputs = batch_normalization(inputs, mean, variance, offset, scale, self.epsilon)
        return outputs, reshape(mean, [-1]), reshape(variance, [-1])

    def _move(self, moving: Variable, value: Tensor) -> None:
        self.add_update(moving.assign_sub((moving - value) * (1.0 - self.momentum)).op)


def _moments_of_kept(inputs: Tensor, kept: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The mean and the variance along these axes of the elements that a mask keeps; both are 0 if it keeps none."""
    wide = cast(inputs, float32) if inputs.dtype in NARROW else inputs
    weights = multiply(cast(kept, wide.dtype), ones_like(wide))
    count = reduce_sum(weights, axes, keepdims=True)

    def mean_of(values: Tensor) -> Tensor:
        return div_no_nan(reduce_sum(multiply_no_nan(values, weights), axes, keepdims=True), count)

    mean = mean_of(wide)
    variance = mean_of(squared_difference(wide, mean))
    return cast(mean, inputs.dtype), cast(variance, inputs.dtype)


class _Scaled(Layer):
    """A layer that normalises, multiplies by gamma and adds beta."""

    supports_masking = casts_integers = True

    def __init__(
        self,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.epsilon: Final = at_least("epsilon", epsilon, 0)
        self._gamma_options = by_name.weight(gamma_initializer, gamma_regularizer, gamma_constraint)
        self._beta_options = by_name.weight(beta_initializer, beta_regularizer, beta_constraint)
        self._uses = switch("scale", scale), switch("center", center)

    def _make_weights(self, sizes: list[int]) -> None:
        scale, center = self._uses
        self.gamma = self.add_weight("gamma", sizes, None, *self._gamma_options) if scale else None
        self.beta = self.add_weight("beta", sizes, None, *self._beta_options) if center else None


class LayerNormalization(_Scaled):
    """Normalises each element to mean 0 and variance 1 along `axis`, times gamma, plus beta [Ba 2016].

    The weights `gamma` and `beta` have the sizes of the axes, which are one or several.

    Examples:
        >>> layer = af.layers.LayerNormalization()
        >>> y = layer(af.constant([[1.0, 3.0]]))
        >>> await session.run(af.global_variables_initializer())
        >>> (await session.run(y)).round(2)
        array([[-1.,  1.]], dtype=float32)
    """

    def __init__(self, axis: int | Sequence[int] = -1, epsilon: float = 1e-3, **options: Any) -> None:
        """ValueError for no axes, or one given twice; TypeError for one that is no whole number."""
        super().__init__(epsilon, **options)
        self.axis: Final = axes("axis", axis)

    def build(self, input_shape: Any) -> None:
        """Make a number for each place along the axes."""
        given = one_shape(input_shape)
        self._make_weights([known_size(given, axis) for axis in self.axis])

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError for axes that the inputs do not have."""
        beta, gamma = self._beside(inputs, self.beta), self._beside(inputs, self.gamma)
        along = self.axis if len(self.axis) > 1 else self.axis[0]
        return layer_normalization(inputs, beta, gamma, along, self.epsilon)

    def _beside(self, inputs: Tensor, weight: Variable | None) -> Any:
        """The weight with an axis of size 1 for each other axis of the inputs."""
        if weight is None or self.axis == tuple(range(-len(self.axis), 0)):
            return weight
        return beside_axes(inputs, weight, self.axis)


class GroupNormalization(_Scaled):
    """Normalises groups of channels of each element, times gamma, plus beta, for each channel [Wu and He 2018].

    Inputs are [batch, ..., channels], or have the channels at `axis`. The weights `gamma` and `beta` are [channels].
    With `groups` -1 each channel is a group.

    Examples:
        >>> af.layers.GroupNormalization(groups=2)(af.ones([2, 8, 4])).shape
        TensorShape([2, 8, 4])
    """

    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, **options: Any) -> None:
        """ValueError for fewer than one group, or the axis of the batch."""
        super().__init__(epsilon, **options)
        self.groups: Final = -1 if groups == -1 else whole("groups", groups, 1)
        self.axis: Final = whole("axis", axis, None)
        if axis == 0:
            raise ValueError("axis is that of the channels, and 0 is that of the batch")

    def build(self, input_shape: Any) -> None:
        """Make a number for each channel. ValueError if the groups are not of one size."""
        channels = known_size(one_shape(input_shape), self.axis)
        if channels % self.groups:
            raise ValueError(f"{channels} channels cannot be divided into {self.groups} groups of one size")
        self._make_weights([channels])

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError if the rank of the inputs is unknown."""
        rank, sizes = known_rank(inputs), shape(inputs)
        place = self.axis % rank
        channels = known_size(inputs.shape, place)
        count = channels if self.groups == -1 else self.groups
        apart = concat([sizes[:place], [count, channels // count], sizes[place + 1 :]], 0)
        others = [axis for axis in range(1, rank + 1) if axis != place]
        grouped = layer_normalization(reshape(inputs, apart), axis=others, variance_epsilon=self.epsilon)
        normal = reshape(grouped, sizes)
        normal.set_shape(inputs.shape)
        if self.gamma is not None:
            normal = normal * beside_axes(inputs, self.gamma, [place])
        return normal if self.beta is None else normal + beside_axes(inputs, self.beta, [place])


class RMSNormalization(Layer):
    """Divides each element by its root mean square along `axis`, and multiplies by scale [Zhang and Sennrich 2019].

    The weight is `scale`, of the sizes of the axes.

    Examples:
        >>> y = af.layers.RMSNormalization()(af.constant([[3.0, 4.0]]))
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(y)
        array([[0.8485281, 1.1313708]], dtype=float32)
    """

    supports_masking = casts_integers = True

    def __init__(self, axis: int | Sequence[int] = -1, epsilon: float = 1e-6, **options: Any) -> None:
        """ValueError for no axes, one given twice, or an epsilon below 0."""
        super().__init__(**options)
        self.axis: Final = axes("axis", axis)
        self.epsilon: Final = at_least("epsilon", epsilon, 0)

    def build(self, input_shape: Any) -> None:
        """Make a number for each place along the axes."""
        given = one_shape(input_shape)
        self.scale: Variable = self.add_weight(
            "scale", [known_size(given, axis) for axis in self.axis], initializer="ones"
        )

    def call(self, inputs: Tensor) -> Tensor:
        """The result. The mean of narrow floats is computed in float32."""
        wide = cast(inputs, statistics_dtype(inputs.dtype))
        factor = rsqrt(reduce_mean(square(wide), self.axis, keepdims=True) + self.epsilon)
        scaled: Tensor = cast(wide * factor, inputs.dtype) * beside_axes(inputs, self.scale, self.axis)
        return scaled


class UnitNormalization(Layer):
    """Scales each element to length 1 along `axis`, one or several.

    Examples:
        >>> await session.run(af.layers.UnitNormalization()(af.constant([[3.0, 4.0]])))
        array([[0.6, 0.8]], dtype=float32)
    """

    supports_masking = casts_integers = True

    def __init__(self, axis: int | Sequence[int] = -1, **options: Any) -> None:
        """ValueError for no axes, or one given twice."""
        super().__init__(**options)
        self.axis: Final = axes("axis", axis)

    def call(self, inputs: Tensor) -> Tensor:
        """The result; elements of length 0 stay 0."""
        return l2_normalize(inputs, self.axis, epsilon=1e-24)


def beside_axes(inputs: Tensor, weight: Any, along: Sequence[int]) -> Tensor:
    """A weight for these axes, with an axis of size 1 for each other axis of the inputs.

    ValueError if the rank of the inputs is unknown.
    """
    rank = known_rank(inputs)
    ordered = sorted(along, key=lambda axis: axis % rank)
    order = [list(along).index(axis) for axis in ordered]
    if order != sorted(order):
        weight = transpose(weight, order)
    sizes = {axis % rank: known_size(inputs.shape, axis) for axis in along}
    return reshape(weight, [sizes.get(axis, 1) for axis in range(rank)])


def known_rank(inputs: Tensor) -> int:
    """The rank. ValueError if it is unknown."""
    if inputs.shape.ndims is None:
        raise ValueError("the rank of the inputs must be known")
    return inputs.shape.ndims
