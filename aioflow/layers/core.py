"""Layers without a notion of space or time: dense, embedding, masking, changes of shape, functions."""

import inspect
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.arrays import tile, transpose
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.gather import gather
from aioflow.kernels.array.shapes import expand_dims, reshape, shape
from aioflow.kernels.linalg.matmul import matmul
from aioflow.kernels.linalg.products import tensordot
from aioflow.kernels.math.arithmetic import multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.kernels.math.reduction import reduce_any
from aioflow.kernels.nn.activation import bias_add
from aioflow.layers import by_name
from aioflow.layers.convolution import layout_of
from aioflow.layers.layer import Layer, known_size, one_shape
from aioflow.layers.numbers import is_sequence, number, switch, whole
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import int32
from aioflow.tensors.recursion import safe_repr


class Dense(Layer):
    """activation(inputs @ kernel + bias), along the last axis.

    Inputs [..., n] give [..., units]. The weights are `kernel` [n, units] and `bias` [units].

    Examples:
        >>> layer = af.layers.Dense(3, activation="relu")
        >>> layer(af.ones([2, 4])).shape, [weight.name for weight in layer.weights]
        (TensorShape([2, 3]), ['dense/kernel:0', 'dense/bias:0'])
    """

    supports_masking = casts_integers = True

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        """TypeError for a number of units that is not whole, ValueError for fewer than one."""
        super().__init__(**options)
        self.units: Final = whole("units", units, 1)
        self.activation: Final = by_name.activation(activation)
        self.use_bias: Final = switch("use_bias", use_bias)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)
        self._activity = by_name.regularizer(activity_regularizer)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        size = known_size(one_shape(input_shape), -1)
        self.kernel: Variable = self.add_weight("kernel", [size, self.units], None, *self._kernel_options)
        self.bias: Variable | None = (
            self.add_weight("bias", [self.units], None, *self._bias_options) if self.use_bias else None
        )

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        if inputs.shape.ndims == 2:
            outputs: Tensor = matmul(inputs, self.kernel)
        else:
            outputs = tensordot(
                inputs, self.kernel, [[-1 if inputs.shape.ndims is None else inputs.shape.ndims - 1], [0]]
            )
        if self.bias is not None:
            outputs = bias_add(outputs, self.bias)
        if self.activation is not None:
            outputs = self.activation(outputs)
        self.add_activity(self._activity, outputs)
        return outputs


class Embedding(Layer):
    """A row of `output_dim` numbers for each of `input_dim` integers: ids [...] give rows [..., output_dim].

    The weight is `embeddings` [input_dim, output_dim]. With `mask_zero` 0 is no id, and its places are masked.

    Examples:
        >>> af.layers.Embedding(1000, 16)(af.constant([[4, 7, 1]])).shape
        TensorShape([1, 3, 16])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "random_uniform",
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        **options: Any,
    ) -> None:
        """ValueError for sizes below one."""
        super().__init__(**options)
        self.input_dim: Final = whole("input_dim", input_dim, 1)
        self.output_dim: Final = whole("output_dim", output_dim, 1)
        self.mask_zero: Final = switch("mask_zero", mask_zero)
        self.supports_masking: bool = self.mask_zero
        self._options = by_name.weight(embeddings_initializer, embeddings_regularizer, embeddings_constraint)

    def build(self, input_shape: Any) -> None:
        """Make the rows."""
        self.embeddings: Variable = self.add_weight(
            "embeddings", [self.input_dim, self.output_dim], None, *self._options
        )

    def call(self, inputs: Tensor) -> Tensor:
        """The rows of the ids. InvalidArgumentError in a run for an id out of range."""
        return gather(self.embeddings, inputs if inputs.dtype.is_integer else cast(inputs, int32))

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> Tensor:
        """Where the ids are not 0."""
        return not_equal(inputs, 0)


class Masking(Layer):
    """Masks the steps whose elements all are `mask_value`, and sets these elements to 0.

    Examples:
        >>> padded = af.layers.Masking()(af.constant([[[2.0], [4.0], [0.0]]]))
        >>> await session.run(af.layers.GlobalAveragePooling1D()(padded))
        array([[3.]], dtype=float32)
    """

    supports_masking = True

    def __init__(self, mask_value: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.mask_value: Final = number("mask_value", mask_value)

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs [batch, steps, ..., size], with zeros for masked steps."""
        return multiply(inputs, cast(expand_dims(self.compute_mask(inputs), -1), inputs.dtype))

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> Tensor:
        """Where an element differs from `mask_value`."""
        return reduce_any(not_equal(inputs, self.mask_value), -1)


class Flatten(Layer):
    """Each element of the batch becomes a vector: [batch, ...] gives [batch, n], the channels of a place together.

    Examples:
        >>> af.layers.Flatten()(af.ones([2, 4, 5])).shape
        TensorShape([2, 20])
    """

    def __init__(self, data_format: str | None = None, **options: Any) -> None:
        """ValueError for an unknown format."""
        super().__init__(**options)
        self.data_format: Final = data_format or "channels_last"
        layout_of(self.data_format, 1)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        rank = inputs.shape.ndims or 0
        if self.data_format == "channels_first" and rank > 2:
            inputs = transpose(inputs, [0, *range(2, rank), 1])
        sizes = inputs.shape.as_list()[1:]
        count = None if None in sizes else one_shape(inputs.shape)[1:].num_elements()
        return (
            reshape(inputs, [-1, count]) if count is not None else reshape(inputs, concat([shape(inputs)[:1], [-1]], 0))
        )


class Reshape(Layer):
    """Each element of the batch gets the shape `target_shape`, one size of which may be -1.

    Examples:
        >>> af.layers.Reshape([2, 2])(af.ones([3, 4])).shape
        TensorShape([3, 2, 2])
    """

    def __init__(self, target_shape: Sequence[int], **options: Any) -> None:
        """TypeError for anything but a sequence of whole numbers, ValueError if more than one size is -1."""
        super().__init__(**options)
        if not is_sequence(target_shape):
            raise TypeError(f"target_shape is a sequence of sizes, not {safe_repr(target_shape)}")
        self.target_shape: Final = tuple([whole("a size of target_shape", size, -1) for size in target_shape])
        if self.target_shape.count(-1) > 1:
            raise ValueError(f"one size of target_shape may be -1, not {self.target_shape.count(-1)}")

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        known = inputs.shape[1:].num_elements()
        sizes = list(self.target_shape)
        if known is not None and -1 in sizes:
            rest = -_product(sizes)
            if not rest or known % rest:
                raise ValueError(f"{known} elements cannot have the shape {self.target_shape}")
            sizes[sizes.index(-1)] = known // rest
        elif known is not None and known != _product(sizes):
            raise ValueError(f"{known} elements cannot have the shape {self.target_shape}")
        if -1 in sizes:
            return reshape(inputs, concat([shape(inputs)[:1], sizes], 0))
        return reshape(inputs, [-1, *sizes])


class Identity(Layer):
    """The inputs themselves.

    Examples:
        >>> await session.run(af.layers.Identity()(af.constant([1.0, 2.0])))
        array([1., 2.], dtype=float32)
    """

    supports_masking = True

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return inputs


class Permute(Layer):
    """The axes after the batch in another order, counted from 1: (2, 1) exchanges two.

    Examples:
        >>> af.layers.Permute([2, 1])(af.ones([1, 2, 3])).shape
        TensorShape([1, 3, 2])
    """

    def __init__(self, dims: Sequence[int], **options: Any) -> None:
        """TypeError for anything but a sequence, ValueError unless it has each number from 1 on once."""
        super().__init__(**options)
        if not is_sequence(dims):
            raise TypeError(f"dims is a sequence of axes, counted from 1, not {safe_repr(dims)}")
        self.dims: Final = tuple([whole("a number of dims", axis, 0) for axis in dims])
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"dims has each number from 1 to the number of axes once, not {self.dims}")

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        return transpose(inputs, [0, *self.dims])


class RepeatVector(Layer):
    """Each vector of the batch `n` times: [batch, size] gives [batch, n, size].

    Examples:
        >>> await session.run(af.layers.RepeatVector(2)(af.constant([[1.0, 2.0]])))
        array([[[1., 2.],
                [1., 2.]]], dtype=float32)
    """

    def __init__(self, n: int, **options: Any) -> None:
        """ValueError for a number below one."""
        super().__init__(**options)
        self.n: Final = whole("n", n, 1)

    def call(self, inputs: Tensor) -> Tensor:
        """The result. ValueError unless the inputs have rank 2."""
        one_shape(inputs.shape, 2)
        return tile(expand_dims(inputs, 1), [1, self.n, 1])


class Lambda(Layer):
    """Any function of the inputs; it may have a parameter `training`.

    Examples:
        >>> await session.run(af.layers.Lambda(lambda x: x * 2)(af.constant([1.0, 2.0])))
        array([2., 4.], dtype=float32)
    """

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any] | None = None, **options: Any) -> None:
        """TypeError for something that is no function, or arguments that are no dict."""
        super().__init__(**options)
        if not callable(function):
            raise TypeError(f"a Lambda has a function of its inputs, not {safe_repr(function)}")
        if not isinstance(arguments, (dict, NoneType)):
            raise TypeError(f"arguments is a dict of values by name, not {safe_repr(arguments)}")
        self.function: Final = function
        self.arguments: Final = dict(arguments or {})

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The result."""
        arguments = {"training": training} if _takes_training(self.function) else {}
        return self.function(inputs, **{**arguments, **self.arguments})


def _takes_training(function: Callable[..., Any]) -> bool:
    try:
        return "training" in inspect.signature(function).parameters
    except ValueError:  # a function of C tells nothing of its parameters
        return False


def _product(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
