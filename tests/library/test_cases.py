"""`case` and `switch_case`: the branch that is chosen, the checks, and what is refused."""

import itertools

import numpy as np
import pytest

import aioflow as af
from aioflow.testing import check_gradients

EXECUTORS = pytest.mark.parametrize("executor", ["regions", "tokens"])


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def session(executor="regions"):
    return af.Session(config=af.Config(executor=executor))


def truths(count):
    return [af.placeholder(af.bool, []) for _ in range(count)]


@EXECUTORS
@pytest.mark.parametrize("count", [1, 2, 3, 5])
async def test_the_first_true_predicate_chooses(graph, executor, count):
    preds = truths(count)
    x = af.constant(10)
    pairs = [(pred, lambda i=i: x + i) for i, pred in enumerate(preds)]
    chosen = af.case(pairs, default=lambda: -x)
    by_dict = af.case(dict(pairs), default=lambda: -x)
    async with session(executor) as running:
        for values in itertools.product([False, True], repeat=count):
            wanted = 10 + values.index(True) if True in values else -10
            assert await running.run([chosen, by_dict], dict(zip(preds, values, strict=True))) == [wanted, wanted]


@EXECUTORS
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_without_a_default_some_predicate_must_be_true(graph, executor, count):
    preds = truths(count)
    there = af.constant(7)
    chosen = af.case([(pred, lambda i=i: (there, [af.constant(i)])) for i, pred in enumerate(preds)])
    async with session(executor) as running:
        for number in range(count):
            feeds = {pred: i >= number for i, pred in enumerate(preds)}
            assert await running.run(chosen, feeds) == (7, [number])
        with pytest.raises(af.errors.InvalidArgumentError, match=r"no predicate is true, .*no default.* \[False"):
            await running.run(chosen, dict.fromkeys(preds, False))


@EXECUTORS
async def test_exclusive_predicates_are_not_true_at_once(graph, executor):
    preds = truths(3)
    variable = af.Variable(0)
    pairs = [(pred, lambda: af.assign_add(variable, 1)) for pred in preds]
    chosen = af.case(pairs, default=lambda: af.constant(-1), exclusive=True)
    async with session(executor) as running:
        await running.run(variable.initializer)
        assert await running.run(chosen, dict(zip(preds, [False, True, False], strict=True))) == 1
        assert await running.run(chosen, dict.fromkeys(preds, False)) == -1
        with pytest.raises(af.errors.InvalidArgumentError, match=r"more than one predicate .* \[True False True\]"):
            await running.run(chosen, dict(zip(preds, [True, False, True], strict=True)))
        assert await running.run(variable) == 1


async def test_a_list_of_one_thing_stays_a_list_only_if_strict(graph):
    (pred,) = truths(1)
    loose = af.case([(pred, lambda: [af.constant(1)])], default=lambda: [af.constant(2)])
    strict = af.case([(pred, lambda: [af.constant(1)])], default=lambda: [af.constant(2)], strict=True)
    alone = [af.case([(pred, lambda: [af.constant(1)])], strict=each) for each in (False, True)]
    async with session() as running:
        assert await running.run([loose, strict, *alone], {pred: True}) == [1, [1], 1, [1]]


@EXECUTORS
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_an_index_chooses(graph, executor, count):
    index = af.placeholder(af.int32, [])
    functions = [lambda i=i: af.constant(10 * i) for i in range(count)]
    by_list = af.switch_case(index, functions, default=lambda: af.constant(-1))
    by_dict = af.switch_case(index, dict(reversed(list(enumerate(functions)))))
    async with session(executor) as running:
        for value in range(-2, count + 2):
            inside = 0 <= value < count
            wanted = [10 * value if inside else -1, 10 * value if inside else 10 * (count - 1)]
            assert await running.run([by_list, by_dict], {index: value}) == wanted


async def test_gradients_flow_through_the_branch_that_ran():
    for point in (-0.7, 0.4, 1.8):
        await check_gradients(
            lambda x: [
                af.case([(x[0] < 0, lambda: af.tanh(x)), (x[0] < 1, lambda: x * x * x)], default=lambda: af.exp(x)),
                af.switch_case(af.cast(af.floor(x[0]), af.int32), [lambda: x * x, lambda: x / 3]),
            ],
            [np.array([point, 0.3])],
        )


@pytest.mark.parametrize(
    ("build", "kind", "text"),
    [
        (lambda p, i: af.case([]), ValueError, "pred_fn_pairs is empty"),
        (lambda p, i: af.case(5), TypeError, "must be a list of pairs or a dict, not 5"),
        (lambda p, i: af.case([p]), TypeError, r"pred_fn_pairs\[0\] must be a pair"),
        (lambda p, i: af.case([(p, lambda: i), (True, lambda: i)]), TypeError, r"pairs\[1\] is True, known now"),
        (
            lambda p, i: af.case([(i, lambda: i)]),
            TypeError,
            r"predicate of pred_fn_pairs\[0\] must be one bool, .*int32",
        ),
        (lambda p, i: af.case([(p, i)]), TypeError, r"pred_fn_pairs\[0\] must have a function"),
        (lambda p, i: af.case([(p, lambda: i)], default=3), TypeError, "default must be a function"),
        (lambda p, i: af.case([(p, lambda: i)], default=lambda: p), ValueError, "int32 .*bool"),
        (lambda p, i: af.case([(p, lambda: i)], default=lambda: (i, i)), ValueError, "differ in structure"),
        (lambda p, i: af.switch_case(1, [lambda: i]), TypeError, "branch_index is 1, known now"),
        (lambda p, i: af.switch_case(p, [lambda: i]), TypeError, "must be an integer, its dtype is bool"),
        (lambda p, i: af.switch_case([i, i], [lambda: i]), ValueError, r"one integer, its shape is \[2\]"),
        (lambda p, i: af.switch_case(i, []), ValueError, "branch_fns is empty"),
        (lambda p, i: af.switch_case(i, 3), TypeError, "list of functions or a dict, not 3"),
        (lambda p, i: af.switch_case(i, [3]), TypeError, "functions without arguments, or pairs .* not 3"),
        (
            lambda p, i: af.switch_case(i, {0: lambda: i, 2: lambda: i}),
            ValueError,
            r"from 0 to 1, each once, not \[0, 2",
        ),
        (lambda p, i: af.switch_case(i, [(1, lambda: i), (1, lambda: i)]), ValueError, r"each once, not \[1, 1\]"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(graph, build, kind, text):
    pred, index = af.placeholder(af.bool, []), af.placeholder(af.int32, [])
    before = graph.version
    with pytest.raises(kind, match=text):
        build(pred, index)
    assert graph.version <= before + 1  # a list of tensors is packed before it is looked at
