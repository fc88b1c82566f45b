"""Subclasses with methods that only Keras calls."""

import pytest

import aioflow as af
from aioflow import layers
from aioflow.layers import callbacks
from aioflow.layers.overrides import CALLBACK, MODEL
from tests.layers.by_hand import X

pytestmark = pytest.mark.usefixtures("graph")


@pytest.mark.parametrize("name", [*MODEL])
async def test_a_model_with_a_method_that_nothing_would_call_is_refused(name):
    kind = type("Own", (af.Sequential,), {name: lambda self, *given: None})
    async with kind([layers.Dense(1)]) as model:
        with pytest.raises(TypeError, match=f"Own defines {name}, which aioflow would never call: "):
            model.compile("sgd", "mse")
        with pytest.raises(TypeError, match=f"Own defines {name}"):
            await model.predict(X)
        assert model(X).shape == (50, 1)


@pytest.mark.parametrize("name", [*CALLBACK])
def test_a_callback_with_a_method_that_nothing_would_call_is_refused(name):
    with pytest.raises(TypeError, match=f"Own defines {name}, which aioflow would never call: "):
        type("Own", (callbacks.Callback,), {name: lambda self, *given: None})
