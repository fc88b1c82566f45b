"""Each element of the result of an element-wise op depends on the elements at its place alone, to the last bit."""

import itertools

import numpy as np
import pytest

from aioflow.graph.graph import Graph
from aioflow.kernels.array.constants import placeholder
from aioflow.tensors.dtypes import DeviceKind, bfloat16, complex64, complex128, float16, float32, float64
from tests.support.evaluate import View, bound
from tests.support.every_op import OURS

SPECIAL = [0, -0.0, 1, -1, 0.5, np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-40, 300, -300, 90, -104, 1e-8, 7, -7.5]
COUNT = 60
ELEMENTWISE = [op for _, op in sorted(OURS.items()) if op.elementwise]


def drawn(dtype, random):
    """Some values of the dtype: special ones, small ones, large ones."""
    if dtype.is_complex:
        return (drawn(float64, random) + 1j * drawn(float64, random)).astype(dtype.np)
    others = random.standard_normal(COUNT - len(SPECIAL)) * random.choice([1, 30], COUNT - len(SPECIAL))
    return random.permutation([*SPECIAL, *others]).astype(dtype.np)


def operations(dtype):
    """Every element-wise op of one, two or three vectors of that dtype."""
    for op in ELEMENTWISE:
        for number in (1, 2, 3):
            try:
                with Graph().as_default():
                    yield op(*[placeholder(dtype, [None]) for _ in range(number)]).op
            except (TypeError, ValueError, AttributeError):  # it takes another number, or other dtypes
                continue


def same(ours, theirs):
    """Whether two elements have the same bits, or are both NaN."""
    return ours.tobytes() == theirs.tobytes() or (ours != ours and theirs != theirs)


def bound_for(operation):
    """The kernel that computes the operation on the CPU, as a function of its inputs."""
    return bound(operation.definition.kernel_for(DeviceKind.CPU, View(operation).input_specs), operation)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16, complex64, complex128])
def test_an_element_has_the_same_bits_alone_and_among_others(dtype):
    random, wrong = np.random.default_rng(1), []
    for operation in operations(dtype):
        call, inputs = bound_for(operation), [drawn(dtype, random) for _ in operation.inputs]
        whole = call(*inputs)
        alone = [call(*[each[place : place + 1] for each in inputs])[0] for place in range(COUNT)]
        wrong += [(operation.type, place) for place in range(COUNT) if not same(whole[place], alone[place])]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("op", ["multiply", "square", "squared_difference", "multiply_no_nan", "xdivy", "div_no_nan"])
@pytest.mark.parametrize("dtype", [complex64, complex128])
def test_a_complex_element_has_the_same_bits_written_over_an_input(op, dtype):
    random, number = np.random.default_rng(2), 1 if op == "square" else 2
    with Graph().as_default():
        call = bound_for(OURS[op](*[placeholder(dtype, [None])] * number).op)
    inputs = [random.standard_normal((COUNT, 2)).view(complex)[:, 0].astype(dtype.np) for _ in range(number)]
    whole = call(*inputs)
    for place, over in itertools.product(range(COUNT), range(number)):
        alone = [each[place : place + 1].copy() for each in inputs]
        assert same(whole[place], call(*alone, out=alone[over])[0])
