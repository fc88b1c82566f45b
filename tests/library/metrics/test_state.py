"""The state of metrics: collections, names, and what many steps at a time make of it."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from tests.support.runs import CONFIGS

SCORES = [[0.1, 0.9, 0.3], [0.8, 0.2, 0.4]]
LABELS = [1, 2]
TRUTH, SHARES = [True, False, True], [0.9, 0.2, 0.4]
METRICS = {
    "accuracy": lambda **where: af.metrics.accuracy([1, 0], [1, 1], **where),
    "auc": lambda **where: af.metrics.auc(TRUTH, SHARES, **where),
    "average_precision_at_2": lambda **where: af.metrics.average_precision_at_k(LABELS, SCORES, 2, **where),
    "false_negatives": lambda **where: af.metrics.false_negatives([1, 0], [0, 1], **where),
    "mean": lambda **where: af.metrics.mean([1.0, 2.0], **where),
    "mean_absolute_error": lambda **where: af.metrics.mean_absolute_error([1.0, 2.0], [2.0, 2.0], **where),
    "mean_accuracy": lambda **where: af.metrics.mean_per_class_accuracy([1, 0], [1, 1], 2, **where),
    "mean_cosine_distance": lambda **where: af.metrics.mean_cosine_distance([[1.0, 0.0]], [[0.0, 1.0]], 1, **where),
    "mean_iou": lambda **where: af.metrics.mean_iou([1, 0], [1, 1], 2, **where),
    "percentage_below_threshold": lambda **where: af.metrics.percentage_below([1.0, 2.0], 1.5, **where),
    "precision": lambda **where: af.metrics.precision([1, 0], [1, 1], **where),
    "precision_at_2": lambda **where: af.metrics.precision_at_k(LABELS, SCORES, 2, **where),
    "recall_at_thresholds": lambda **where: af.metrics.recall_at_thresholds(TRUTH, SHARES, [0.3, 0.7], **where),
    "root_mean_squared_error": lambda **where: af.metrics.root_mean_squared_error([1.0, 2.0], [2.0, 2.0], **where),
    "sensitivity_at_specificity": lambda **where: af.metrics.sensitivity_at_specificity(TRUTH, SHARES, 0.5, **where),
    "true_positives": lambda **where: af.metrics.true_positives_at_thresholds(TRUTH, SHARES, [0.3], **where),
}  # fmt: skip


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("scope", METRICS)
def test_value_and_update_join_their_collections_and_variables_those_of_metrics(graph, scope):
    value, update = METRICS[scope](metrics_collections="values", updates_collections=["updates", "all"])
    assert graph.get_collection("values") == [value]
    assert graph.get_collection("updates") == graph.get_collection("all") == [update]
    variables = graph.get_collection(af.GraphKeys.METRIC_VARIABLES)
    assert variables == af.local_variables()
    assert {variable.name.partition("/")[0] for variable in variables} == {scope}
    assert af.global_variables() == af.trainable_variables() == []


@pytest.mark.parametrize("scope", METRICS)
async def test_a_run_of_both_gives_a_value_that_contains_the_batch_and_a_second_initialization_forgets_it(graph, scope):
    value, update = METRICS[scope]()
    initialize = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(initialize)
        empty = await session.run(value)
        both = await session.run([value, update])
        np.testing.assert_array_equal(await session.run(value), both[0])
        if scope not in ("mean_iou", "mean_accuracy"):  # their updates are of another form
            np.testing.assert_array_equal(*both)
        await session.run(initialize)
        np.testing.assert_array_equal(await session.run(value), empty)


@pytest.mark.parametrize("scope", METRICS)
async def test_compiled_steps_and_single_nodes_give_the_same_bits(graph, scope):
    pair, initialize = METRICS[scope](), af.local_variables_initializer()
    found = []
    for config in CONFIGS.values():
        async with af.Session(graph=graph, config=config) as session:
            await session.run(initialize)
            found.append([await session.run(pair) for _ in range(2)])
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(a, b)


async def test_steps_that_run_at_a_time_lose_no_batch(graph):
    values = af.placeholder("float32", [None])
    value, update = af.metrics.mean(values)
    counts, count = af.metrics.true_positives_at_thresholds(af.ones_like(values, af.bool), values / 64, [0.5])
    async with af.Session(graph=graph) as session:
        await session.run(af.local_variables_initializer())
        await asyncio.gather(*[session.run([update, count], {values: np.arange(n)}) for n in range(64)])
        total = sum(np.arange(n).sum() for n in range(64))
        assert await session.run(value) == np.float32(total / sum(range(64)))
        assert (await session.run(counts)).tolist() == [sum((np.arange(n) > 32).sum() for n in range(64))]


async def test_names_are_made_unique_and_may_be_chosen(graph):
    for _ in range(2):
        af.metrics.mean([1.0])
    af.metrics.mean([1.0], name="mine")
    with af.name_scope("outer"):
        af.metrics.accuracy([1], [1])
    names = [variable.name for variable in af.local_variables()]
    scopes = ["mean", "mean_1", "mine", "outer/accuracy"]
    assert names == [f"{scope}/{variable}:0" for scope in scopes for variable in ("total", "count")]


async def test_a_metric_of_a_loop_gathers_its_iterations(graph):
    def body(i):
        _, update = af.metrics.mean(af.cast(i, af.float32))
        with af.control_dependencies([update]):
            return i + 1

    loop = af.while_loop(lambda i: i < 5, body, [0])
    total, count = af.local_variables()
    async with af.Session(graph=graph) as session:
        await session.run(af.local_variables_initializer())
        await session.run(loop)
        assert await session.run([total, count]) == [10, 5]


def test_a_metric_that_is_refused_leaves_nothing(graph):
    with pytest.raises(ValueError, match=r"weights of shape \[3\] do not fit values of shape \[2\]"):
        af.metrics.mean([1.0, 2.0], weights=[1.0, 2.0, 3.0])
    assert graph.get_operations() == []
    assert af.local_variables() == []
