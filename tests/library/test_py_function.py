"""Python functions of values with a method `numpy`."""

import numpy as np
import pytest

import aioflow as af


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_functions_get_values_and_decorators_make_operations(graph):
    async def total(x, y):
        return x.numpy().sum() + y.numpy()

    @af.py_function(Tout=[af.int64, af.string], name="parts")
    def parts(x, text):
        return np.asarray(x).argmax(), text.numpy().item() + b"!"

    seen = []
    fetches = [
        af.py_function(total, [[1.0, 2.0], 4.0], af.float32),
        parts([3, 9, 5], "tea"),
        af.py_function(lambda x: seen.append(type(x.numpy())), [1.0], None, name="watch"),
    ]
    assert fetches[2].name == "watch"
    async with af.Session(graph=graph) as session:
        sum_, (place, text), _ = await session.run(fetches)
    assert (sum_, place, text, seen) == (7.0, 1, b"tea!", [np.ndarray])


def test_inputs_without_a_function_are_refused():
    with pytest.raises(ValueError, match="inp is given without func"):
        af.py_function(None, [1.0], af.float32)
