"""The layouts of PyTorch's weights: rules for the weights of `af.layers`, and of any variables named like these.

PyTorch has the axes of outputs and inputs first, aioflow and Keras have them last. Recurrent layers of PyTorch have
two biases, and its GRU has its gates in the order reset, update, new, instead of update, reset, new. The rules name a
cell, `weight_ih`, and the first layer of a recurrent module, `weight_ih_l0`; the name map renames further ones. A
separable convolution is two modules of PyTorch: the name map gives them the names `depthwise` and `pointwise`.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from aioflow.porting.rules import Convert, Rule
from aioflow.tensors.as_array import AnyArray


@dataclasses.dataclass(frozen=True)
class _Conversion:
    """A function of arrays, with a text for reports."""

    function: Convert
    text: str

    def __call__(self, *arrays: AnyArray) -> AnyArray:
        converted: AnyArray = self.function(*arrays)
        return converted

    def __str__(self) -> str:
        return self.text


def _transposed(weight: AnyArray) -> AnyArray:
    """Return [*window, in, out] for [out, in, *window]."""
    return np.transpose(weight, (*range(2, weight.ndim), 1, 0))


def _depthwise(weight: AnyArray) -> AnyArray:
    """Return [*window, channels * multiplier, 1] for [channels * multiplier, 1, *window]."""
    return np.transpose(weight, (*range(2, weight.ndim), 0, 1))


def _third(number: int, convert: Convert) -> _Conversion:
    """Return the conversion of one of the three parts of a weight that has those of query, key and value."""
    text = f"the {('first', 'second', 'last')[number]} third of its rows"
    return _Conversion(lambda weight: convert(np.array_split(weight, 3)[number]), text)


def _gates_ordered(weight: AnyArray, recurrent: AnyArray) -> AnyArray:
    """Return a weight or bias with the gates of our GRU; that of other layers as it is.

    The shape of the recurrent weight, [gates * units, units], says how many gates there are.
    """
    units = recurrent.shape[1]
    if len(recurrent) != 3 * units:
        return weight
    reset, update, new = weight[:units], weight[units : 2 * units], weight[2 * units :]
    return np.concatenate([update, reset, new])


def _recurrent_kernel(weight: AnyArray, recurrent: AnyArray) -> AnyArray:
    """Return [inputs, gates * units] for [gates * units, inputs]."""
    return np.transpose(_gates_ordered(weight, recurrent))


def _recurrent_bias(inputs: AnyArray, outputs: AnyArray, recurrent: AnyArray) -> AnyArray:
    """Return the sum of both biases; for a GRU, which needs both, the rows of the two."""
    if len(recurrent) == 3 * recurrent.shape[1]:
        return np.stack([_gates_ordered(inputs, recurrent), _gates_ordered(outputs, recurrent)])
    return inputs + outputs


def dense_after_flatten(channels: int, *window: int) -> Convert:
    """Return the conversion of a `Linear` weight whose inputs were images flattened, of [channels, *window] each.

        Rule("dense/kernel", "fc.weight", af.porting.dense_after_flatten(16, 4, 4))

    PyTorch flattens all of the first channel before the second one; aioflow has the channels of an image last.

    Examples:
        >>> convert = af.porting.dense_after_flatten(8, 6, 6)
        >>> convert(np.zeros([10, 8 * 6 * 6], np.float32)).shape
        (288, 10)
    """

    def channels_last(weight: AnyArray) -> AnyArray:
        images = weight.reshape(len(weight), channels, *window)
        return np.moveaxis(images, 1, -1).reshape(len(weight), -1).T

    return _Conversion(channels_last, f"{[channels, *window]} to channels last, transposed")


def _attention() -> Iterator[Rule]:
    transposed = _Conversion(np.transpose, "transposed")
    for number, part in enumerate(("query", "key", "value")):
        yield Rule(f"{part}/kernel", "in_proj_weight", _third(number, np.transpose))
        yield Rule(f"{part}/kernel", f"{part[0]}_proj_weight", transposed)
        yield Rule(f"{part}/bias", "in_proj_bias", _third(number, np.asarray))
    yield Rule("output/kernel", "out_proj.weight", transposed)
    yield Rule("output/bias", "out_proj.bias")


def _recurrent(end: str) -> Iterator[Rule]:
    """Yield the rules of the recurrent weights whose names have that end."""
    recurrent, text = f"weight_hh{end}", "transposed, gates ordered"
    yield Rule("kernel", [f"weight_ih{end}", recurrent], _Conversion(_recurrent_kernel, text))
    yield Rule("recurrent_kernel", recurrent, _Conversion(lambda weight: _recurrent_kernel(weight, weight), text))
    biases = [f"bias_ih{end}", f"bias_hh{end}", recurrent]
    yield Rule("bias", biases, _Conversion(_recurrent_bias, "gates ordered, biases joined"))


def _rules() -> Sequence[Rule]:
    kernel = _Conversion(_transposed, "[out, in, ...] to [..., in, out]")
    depthwise = _Conversion(_depthwise, "[out, 1, ...] to [..., out, 1]")
    return (
        *_attention(),
        *_recurrent("_l0"),
        *_recurrent(""),
        Rule("kernel", "weight", kernel),
        Rule("depthwise_kernel", "weight", depthwise, reshape=True),
        Rule("depthwise_kernel", "depthwise.weight", depthwise, reshape=True),
        Rule("pointwise_kernel", "pointwise.weight", kernel),
        Rule("bias", "bias"),
        Rule("bias", "pointwise.bias"),
        Rule("embeddings", "weight"),
        Rule("alpha", "weight", reshape=True),
        Rule("scale", "weight"),
        Rule("gamma", "weight"),
        Rule("beta", "bias"),
        Rule("moving_mean", "running_mean"),
        Rule("moving_variance", "running_var"),
        Rule(None, "num_batches_tracked"),
    )


TORCH: Final = _rules()
"""Rules for files that PyTorch's modules have saved."""
