import numpy as np
import pytest

import aioflow as af
from aioflow.graph.op import REGISTRY, op
from aioflow.tensors.dtypes import DeviceKind, Spec
from aioflow.testing import check_gradients
from tests.support.evaluate import evaluate


@pytest.fixture
def declare():
    """Declares an op for the duration of a test."""
    before = dict(REGISTRY)
    yield lambda rule: op(rule)
    REGISTRY.clear()
    REGISTRY.update(before)


async def test_the_checker_is_content_with_right_gradients():
    x, w = np.arange(6.0).reshape(2, 3) + 1, np.array([0.5, 2.0, -1.0])
    await check_gradients(lambda x, w: x * x / w, [x, w], order=3, compute=evaluate)


async def test_the_checker_follows_the_convention_for_complex_gradients():
    z = np.array([1 + 2j, -0.5 + 1j])
    await check_gradients(lambda z, w: z * z / w, [z, z[::-1]], compute=evaluate)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x, dy: dy * 3.0, r"gradient of 'cube' is wrong at order 1\n  input_0\[1\]: the gradient is .*off by"),
        (lambda x, dy: af.stop_gradient(x * x) * dy * 3.0, "'cube' is wrong at order 2\n  input_0"),
        (lambda x, dy: None, r"the gradient is 0, differences give"),
    ],
)
async def test_the_checker_names_the_op_the_input_and_the_difference(declare, rule, message):
    @declare
    def cube(x: Spec) -> Spec:
        """The third power."""
        return x

    cube.gradient(lambda op, dy: rule(op.inputs[0], dy))
    cube.kernel(DeviceKind.CPU)(lambda xp, x: x * x * x)
    with pytest.raises(AssertionError, match=message):
        await check_gradients(cube, [np.array([1.0, 2.0])], compute=evaluate)


async def test_the_checker_runs_a_session_of_its_own_by_default():
    await check_gradients(lambda x: x * x, [np.float32(3)])


async def test_the_checker_wants_something_to_differentiate():
    with pytest.raises(AssertionError, match="no floating or complex output"):
        await check_gradients(lambda x: af.cast(x, af.int32), [1.0], compute=evaluate)
