"""Values as text, as TensorFlow lays them out."""

import logging
import sys

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def shown(value, **options):
    return evaluate(af.strings.format("{}", af.constant(value), **options)).item().decode()


def test_arrays_have_the_text_that_tensorflow_gives_them():
    assert shown(np.arange(10)) == "[0 1 2 ... 7 8 9]"
    assert shown(np.arange(10), summarize=-1) == "[0 1 2 3 4 5 6 7 8 9]"
    assert shown(np.arange(8).reshape(8, 1, 1), summarize=2) == "[[[0]]\n\n [[1]]\n\n ...\n\n [[6]]\n\n [[7]]]"
    assert shown(np.arange(8).reshape(2, 2, 2)) == "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"
    assert shown(np.float32([0.1, 1 / 3, 1e10, 1234567, 16777216, -0.0]), summarize=9) == (
        "[0.1 0.333333343 1e+10 1234567 16777216 -0]"
    )
    assert shown([1 / 3, 1e16, np.nan, np.inf], summarize=9) == "[0.333333343 1e+16 nan inf]"
    assert shown(np.float64([1 / 3, 1e-5])) == "[0.33333333333333331 1e-05]"
    assert shown(np.float16([1 / 3])) == "[0.333251953]"
    assert shown([True, False]) == "[1 0]"
    assert shown(["x", 'y"\n\\']) == '["x" "y\\"\\n\\\\"]'
    assert shown(np.zeros((0, 2), np.float32)) == "[]"


def test_each_placeholder_takes_the_next_input():
    made = af.strings.format("a % b % c", (af.constant(1), "x"), placeholder="%")
    assert evaluate(made).item() == b'a 1 b "x" c'
    with pytest.raises(ValueError, match="the template has 2 placeholders for 1 inputs"):
        af.strings.format("{} {}", [1])


async def test_print_writes_structures_with_the_values_of_the_run(graph, capsys, caplog):
    x = af.placeholder(af.int32, [None])
    sparse = af.SparseTensor([[0, 1]], [5], [2, 2])
    lines = [
        af.print("hello", x, {"a": af.constant(2), "b": [1, af.constant("q")]}),
        af.print(x, None, sep="|", end="!\n", output_stream=sys.stdout),
        af.print(af.constant("plain"), output_stream=sys.stdout),
        af.print(sparse, output_stream=sys.stdout),
        af.print("logged {}", x, output_stream=af.logging.info),
    ]
    async with af.Session(graph=graph) as session:
        with caplog.at_level(logging.INFO, "aioflow"):
            for line in lines:
                assert await session.run(line, {x: [0, 1]}) is None
    out, err = capsys.readouterr()
    assert err == "hello [0 1] {'a': 2, 'b': [1, \"q\"]}\n"
    assert out == "[0 1]|None!\nplain\n'SparseTensor(indices=[[0 1]], values=[5], shape=[2 2])'\n"
    assert [record.getMessage() for record in caplog.records if record.name == "aioflow"] == ["logged {} [0 1]"]


def test_print_refuses_other_streams():
    with pytest.raises(ValueError, match="output_stream is sys"):
        af.print("x", output_stream="file:///there")
