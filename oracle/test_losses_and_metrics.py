"""`af.losses` and `af.metrics` have TensorFlow's names, arguments, values, gradients and state."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioflow as af
from oracle import both
from oracle.draw import Call

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(600)]
RTOL = 64
"""In units of the last place: sums are added in another order."""
RANDOM = np.random.default_rng(0)
WEIGHTS = ((), (1, 1), (4, 1), (1, 3), (4, 3))
Arrays = tuple[Any, ...]


def numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def shares(*shape: int) -> Any:
    return RANDOM.uniform(0, 1, shape).astype(np.float32)


def bits(*shape: int) -> Any:
    return RANDOM.integers(0, 2, shape).astype(np.float32)


def classes(*shape: int) -> Any:
    return RANDOM.integers(0, 3, shape)


ONE_HOT = np.eye(3, dtype=np.float32)[classes(4)]
"""TensorFlow's gradient is exact only for distributions that add up to 1."""


@pytest.mark.parametrize("module", ["losses", "metrics"])
def test_names_and_arguments_are_tensorflows(module: str) -> None:
    mine, other = getattr(af, module), getattr(both.tensorflow(), module)
    names = {name for name in dir(other) if not name.startswith("_")}
    assert {*dir(mine)} >= names
    assert all(inspect.isclass(getattr(mine, name)) for name in {*dir(mine)} - names)  # Keras's
    for name in names:
        if inspect.isfunction(getattr(mine, name)):
            assert _parameters(getattr(mine, name)) == _parameters(getattr(other, name)), name


def _parameters(function: Any) -> list[tuple[str, Any]]:
    """Names and defaults; TensorFlow's decorators carry the signature of what they decorate."""
    return [(parameter.name, parameter.default) for parameter in inspect.signature(function).parameters.values()]


LOSSES: dict[str, tuple[Arrays, dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "absolute_difference": ((numbers(4, 3), numbers(4, 3)), {}, WEIGHTS),
    "cosine_distance": ((numbers(4, 3), numbers(4, 3)), {"axis": 1}, ((), (1, 1), (4, 1))),
    "hinge_loss": ((bits(4, 3), numbers(4, 3)), {}, WEIGHTS),
    "huber_loss": ((numbers(4, 3), numbers(4, 3)), {"delta": 0.7}, WEIGHTS),
    "log_loss": ((bits(4, 3), shares(4, 3)), {}, WEIGHTS),
    "mean_squared_error": ((numbers(4, 3), numbers(4, 3)), {}, WEIGHTS),
    "sigmoid_cross_entropy": ((bits(4, 3), numbers(4, 3)), {"label_smoothing": 0.1}, WEIGHTS),
    "softmax_cross_entropy": ((ONE_HOT, numbers(4, 3)), {"label_smoothing": 0.1}, ((), (1,), (4,))),
    "sparse_softmax_cross_entropy": ((classes(4, 1), numbers(4, 3)), {}, ((), (1,), (4,), (4, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients_are_tensorflows(name: str) -> None:
    operands, options, shapes = LOSSES[name]
    weights = [np.where(shares(*shape) < 0.3, 0, shares(*shape)).astype(np.float32) for shape in shapes]

    def build(lib: Any, labels: Any, predictions: Any, *weights: Any) -> list[Any]:
        made = []
        for reduction in af.losses.Reduction.all():
            for each in (1.0, 0.0, 2.5, *weights):
                loss = getattr(lib.losses, name)(labels, predictions, weights=each, reduction=reduction, **options)
                made += [loss, *lib.gradients(loss, [predictions])]
        return made

    agree(build, *operands, *weights)


def test_the_pairwise_loss_is_tensorflows() -> None:
    def build(lib: Any, labels: Any, predictions: Any, *weights: Any) -> list[Any]:
        return [lib.losses.mean_pairwise_squared_error(labels, predictions, each) for each in (1.0, 0.0, *weights)]

    agree(build, numbers(4, 3), numbers(4, 3), *[bits(*shape) for shape in WEIGHTS])


def agree(build: both.Build, *arrays: Any) -> None:
    call = Call(arrays, {})
    mine, other = both.ours(build, call), both.theirs(build, call)
    assert isinstance(mine, both.Ran), mine
    assert isinstance(other, both.Ran), other
    assert both.mismatch(mine.values, other.values, RTOL) is None


# Metrics

PLAIN = (
    ("mean", (numbers,), {}),
    ("percentage_below", (numbers,), {"threshold": 0.3}),
    ("accuracy", (classes, classes), {}),
    *[(name, (bits, bits), {}) for name in ("precision", "recall", "true_positives", "false_negatives")],
    *[(name, (numbers, numbers), {}) for name in ("mean_absolute_error", "root_mean_squared_error")],
    ("mean_relative_error", (numbers, numbers, numbers), {}),
    *[
        (f"{name}_at_thresholds", (bits, shares), {"thresholds": [0.2, 0.9, 0.5]})
        for name in ("precision", "recall", "true_negatives", "false_positives")
    ],
    *[
        ("auc", (bits, shares), {"curve": curve, "summation_method": method, "num_thresholds": 20})
        for curve in ("ROC", "PR")
        for method in ("trapezoidal", "careful_interpolation", "minoring", "majoring")
    ],
    ("sensitivity_at_specificity", (bits, shares), {"specificity": 0.8}),
    ("specificity_at_sensitivity", (bits, shares), {"sensitivity": 0.8}),
)
RANKED = (
    ("precision_at_k", {"k": 2}), ("precision_at_k", {"k": 2, "class_id": 1}), ("recall_at_k", {"k": 2}),
    ("recall_at_k", {"k": 2, "class_id": 0}), ("average_precision_at_k", {"k": 2}),
)  # fmt: skip
Case = tuple[str, dict[str, Any], list[Arrays], list[Any]]


def cases() -> Iterator[Case]:
    """The name of a metric, its options, the arrays of two batches, and the weights of each."""
    for name, draw, options in PLAIN:
        for shape in (None, *WEIGHTS):
            batches = [tuple(each(4, 3) for each in draw) for _ in range(2)]
            yield name, options, batches, [None if shape is None else shares(*shape) for _ in batches]
    for name in ("mean_iou", "mean_per_class_accuracy"):
        for shape in (None, (4, 3)):
            batches = [(classes(4, 3), classes(4, 3)) for _ in range(2)]
            yield name, {"num_classes": 5}, batches, [None if shape is None else shares(*shape) for _ in batches]
    for name, options in RANKED:
        for labels in ((4,), (4, 1), (4, 2)):
            for shape in (None, (), (4,)):
                batches = [(classes(*labels), numbers(4, 3)) for _ in range(2)]
                yield name, options, batches, [None if shape is None else shares(*shape) for _ in batches]


def test_the_values_of_metrics_over_two_batches_are_tensorflows() -> None:
    given = list(cases())
    mine, other = asyncio.run(_ours(given)), _theirs(given)
    for case, *both_values in zip(given, mine, other, strict=True):
        assert both.mismatch(*both_values, RTOL) is None, case


Fed = dict[Any, Any]


def _build(lib: Any, given: list[Case]) -> tuple[list[Any], list[Fed]]:
    """Value and update of each metric, and the feeds of each batch."""
    pairs, feeds = [], [Fed(), Fed()]
    for name, options, batches, weights in given:
        columns = [*zip(*batches, strict=True), *([weights] if weights[0] is not None else [])]
        inputs = [lib.placeholder(column[0].dtype, column[0].shape) for column in columns]
        for number, fed in enumerate(feeds):
            fed.update(zip(inputs, [column[number] for column in columns], strict=True))
        each = {"weights": inputs.pop()} if weights[0] is not None else {}
        pairs.append(getattr(lib.metrics, name)(*inputs, **options, **each))
    return pairs, feeds


async def _ours(given: list[Case]) -> list[list[Any]]:
    with af.Graph().as_default() as graph:
        pairs, feeds = _build(af, given)
        prepare = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(prepare)
        found = [await session.run([value for value, _ in pairs])]
        for fed in feeds:
            found.append(await session.run([update for _, update in pairs], fed))
            found.append(await session.run([value for value, _ in pairs]))
    return [list(values) for values in zip(*found, strict=True)]


def _theirs(given: list[Case]) -> list[list[Any]]:
    v1 = both.tensorflow()
    with v1.Graph().as_default() as graph:
        pairs, feeds = _build(v1, given)
        prepare = v1.local_variables_initializer()
        with v1.Session(graph=graph) as session:
            session.run(prepare)
            found = [session.run([value for value, _ in pairs])]
            for fed in feeds:
                found.append(session.run([update for _, update in pairs], fed))
                found.append(session.run([value for value, _ in pairs]))
    return [list(values) for values in zip(*found, strict=True)]
