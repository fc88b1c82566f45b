"""`layer.input` and `layer.output`: the tensors of its only call."""

import numpy as np
import pytest

import aioflow as af
from aioflow import layers

pytestmark = pytest.mark.usefixtures("graph")


async def test_a_part_of_a_model_ends_at_the_output_of_a_layer():
    base = af.Sequential([layers.Input([4]), layers.Dense(3, name="first"), layers.Dense(2)])
    first = base.get_layer("first")
    assert (first.input, first.output) == (base.input, first.get_output_at(0))
    async with af.Model(base.input, first.output) as part:
        x = np.ones((2, 4), np.float32)
        kernel, bias = await part.get_weights()
        np.testing.assert_allclose(await part.predict(x), x @ kernel + bias, rtol=1e-6)


def test_a_layer_called_several_times_or_never_has_no_output_of_its_own():
    layer = layers.Dense(3, name="shared")
    with pytest.raises(AttributeError, match=r"'shared' has no output of its own: it has 0 calls .*; call it first"):
        layer.output  # noqa: B018
    x = layers.Input([4])
    made = [layer(x), layer(x * 2.0)]
    assert not hasattr(layer, "input")
    with pytest.raises(AttributeError, match="it has 2 calls outside of other layers; choose one by get_output_at"):
        layer.output  # noqa: B018
    assert [layer.get_output_at(number) for number in (0, 1)] == made
    assert layer.get_input_at(0) == x
    with pytest.raises(ValueError, match="'shared' has 2 calls outside of other layers, and none is number 2"):
        layer.get_output_at(2)


async def test_a_model_has_its_inputs_and_outputs_and_a_layer_may_have_an_attribute_of_its_own():
    class Net(af.Model):
        def __init__(self):
            super().__init__(name="net")
            self.head = layers.Dense(1)

        def call(self, inputs):
            return self.head(inputs)

    class Own(layers.Layer):
        def __init__(self):
            super().__init__()
            self.output = layers.Dense(2)

        def call(self, inputs):
            return self.output(inputs)

    async with Net() as net:
        with pytest.raises(AttributeError, match="'net' has no input yet"):
            net.input  # noqa: B018
        await net.predict(np.ones((2, 3)))
        assert (net.input, net.output) == (net.inputs, net.outputs)
    own = Own()
    assert own(af.ones([2, 3])).shape == [2, 2]
    assert isinstance(own.output, layers.Dense)
    assert len(own.weights) == 2
