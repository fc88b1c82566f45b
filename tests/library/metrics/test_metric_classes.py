"""Metrics as objects: weighted values over several batches, by their definitions, and what they refuse.

`oracle/test_metric_classes.py` compares all of them with Keras.
"""

import numpy as np
import pytest

import aioflow as af
from aioflow import metrics

RANDOM = np.random.default_rng(3)
TRUE = RANDOM.integers(0, 2, 20).astype(np.float32)
CHANCES = RANDOM.uniform(0, 1, 20).astype(np.float32)
CLASSES = RANDOM.integers(0, 4, 20)
SHARES = RANDOM.dirichlet(np.ones(4), 20).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[CLASSES]
NUMBERS, GUESSES = RANDOM.standard_normal((2, 20, 3)).astype(np.float32)
WEIGHTS = RANDOM.uniform(0, 2, 20).astype(np.float32)


def mean(values):
    """The mean over all numbers, by the weights of elements."""
    return np.average(values.reshape(20, -1).mean(1), weights=WEIGHTS)


def rate(part, whole):
    return (WEIGHTS * part * whole).sum() / max((WEIGHTS * whole).sum(), 1e-9)


def rates(threshold):
    """Precision, recall and specificity."""
    above = threshold < CHANCES
    return rate(TRUE, above), rate(above, TRUE), rate(~above, 1 - TRUE)


def best_shares(k):
    return np.sort(SHARES)[:, -k, None] <= SHARES


def f_scores(beta):
    above = best_shares(1)
    each = WEIGHTS[:, None] * ONE_HOT * above
    precision, recall = (each.sum(0) / (WEIGHTS[:, None] * of).sum(0).clip(1e-9) for of in (above, ONE_HOT))
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall).clip(1e-9)


def overlaps():
    guesses = SHARES.argmax(1)
    both = [(WEIGHTS * (each == CLASSES) * (guesses == each)).sum() for each in range(4)]
    either = [(WEIGHTS * ((each == CLASSES) | (guesses == each))).sum() for each in range(4)]
    return np.array(both) / either


def explained():
    spread = NUMBERS - np.average(NUMBERS, 0, WEIGHTS)
    return 1 - (WEIGHTS @ (NUMBERS - GUESSES) ** 2) / (WEIGHTS @ spread**2)


POINTS = np.array([0.0, *[(i + 1) / 49 for i in range(48)], 1.0])
CASES = [
    (metrics.RootMeanSquaredError(), NUMBERS, GUESSES, lambda: np.sqrt(mean((NUMBERS - GUESSES) ** 2))),
    (metrics.R2Score(None), NUMBERS, GUESSES, explained),
    (metrics.MeanAbsoluteError(), NUMBERS, GUESSES, lambda: mean(np.abs(NUMBERS - GUESSES))),
    (metrics.BinaryAccuracy(threshold=0.3), TRUE, CHANCES, lambda: mean((CHANCES > 0.3) == TRUE)),
    (metrics.SparseTopKCategoricalAccuracy(2), CLASSES, SHARES,
     lambda: mean(best_shares(2)[np.arange(20), CLASSES])),
    (metrics.FalsePositives(0.3), TRUE, CHANCES, lambda: (WEIGHTS * (1 - TRUE) * (CHANCES > 0.3)).sum()),
    (metrics.Precision([0.2, 0.8]), TRUE, CHANCES, lambda: [rates(0.2)[0], rates(0.8)[0]]),
    (metrics.Recall(top_k=2), ONE_HOT, SHARES, lambda: mean((best_shares(2) * ONE_HOT).sum(1))),
    (metrics.Precision(class_id=1), ONE_HOT, SHARES, lambda: rate(CLASSES == 1, SHARES[:, 1] > 0.5)),
    (metrics.PrecisionAtRecall(0.6, 50), TRUE, CHANCES,
     lambda: max(rates(point)[0] for point in POINTS[:-1] if rates(point)[1] >= 0.6)),
    (metrics.SensitivityAtSpecificity(0.6, 50), TRUE, CHANCES,
     lambda: max(rates(point)[1] for point in POINTS if rates(point)[2] >= 0.6)),
    (metrics.FBetaScore(None, 2.0), ONE_HOT, SHARES, lambda: f_scores(2.0)),
    (metrics.F1Score("weighted"), ONE_HOT, SHARES,
     lambda: f_scores(1.0) @ (WEIGHTS @ ONE_HOT) / WEIGHTS.sum()),
    (metrics.OneHotMeanIoU(4), ONE_HOT, SHARES, lambda: overlaps().mean()),
    (metrics.IoU(4, [0, 2], sparse_y_pred=False), CLASSES, SHARES, lambda: overlaps()[[0, 2]].mean()),
    (metrics.ConcordanceCorrelation(), NUMBERS, NUMBERS, lambda: 1.0),
    (metrics.MeanMetricWrapper(lambda labels, predictions: labels + predictions), TRUE, CHANCES,
     lambda: mean(TRUE + CHANCES)),
]  # fmt: skip


async def test_weighted_values_over_batches_are_those_of_all_elements():
    with af.Graph().as_default() as graph:
        feeds, values, updates = [], [], []
        for metric, labels, predictions, _ in CASES:
            fed = [af.placeholder(array.dtype, [None, *array.shape[1:]]) for array in (labels, predictions, WEIGHTS)]
            value, update = metric(*fed)
            feeds.append(fed)
            values.append(value)
            updates.append(update)
        begin = af.local_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(begin)
        for rows in (slice(7), slice(7, 20)):
            arrays = [array[rows] for _, labels, predictions, _ in CASES for array in (labels, predictions, WEIGHTS)]
            await session.run(updates, dict(zip([each for fed in feeds for each in fed], arrays, strict=True)))
        for (metric, *_, wanted), found in zip(CASES, await session.run(values), strict=True):
            np.testing.assert_allclose(found, wanted(), rtol=1e-4, err_msg=metric.name)


async def test_compile_takes_metrics_as_objects_and_classes_with_their_names_and_weights():
    with af.Graph().as_default():
        x = af.layers.Input([3])
        async with af.Model(x, x[:, :1] * 0.0 + 0.6) as model:
            wanted = [metrics.Precision(0.5), metrics.AUC, metrics.BinaryAccuracy(name="right")]
            model.compile("sgd", "mse", metrics=wanted, weighted_metrics=[metrics.Precision(0.5)])
            found = await model.evaluate(NUMBERS, TRUE, sample_weight=WEIGHTS, return_dict=True)
    assert list(found) == ["loss", "precision", "auc", "right", "weighted_precision"]
    assert found["precision"] == found["right"] == pytest.approx(TRUE.mean())
    assert found["weighted_precision"] == pytest.approx(np.average(TRUE, weights=WEIGHTS), rel=1e-5)


class F1(metrics.Metric):
    """As Keras' users write it."""

    def __init__(self, threshold=0.5, name="f1", **options):
        super().__init__(name=name, **options)
        self.threshold = threshold
        self.right = self.add_weight(name="right", initializer="zeros")
        self.all = self.add_weight("all", shape=(), initializer=lambda shape, dtype: af.zeros(shape, dtype))

    def update_state(self, y_true, y_pred, sample_weight=None):
        guessed = af.cast(y_pred > self.threshold, self.dtype)
        labels = af.reshape(af.cast(y_true, self.dtype), af.shape(guessed))
        weights = 1.0 if sample_weight is None else af.reshape(sample_weight, [-1, 1])
        self.right.assign_add(af.reduce_sum(weights * labels * guessed))
        self.all.assign_add(af.reduce_sum(weights * (labels + guessed)))

    def result(self):
        return 2.0 * self.right / self.all


def f1(threshold, weights=1.0):
    guessed = np.greater(CHANCES, threshold)
    return 2 * np.sum(weights * TRUE * guessed) / np.sum(weights * (TRUE + guessed))


async def test_a_metric_with_variables_of_its_own_sums_up_batches_in_each_use_anew():
    with af.Graph().as_default():
        x = af.layers.Input([1])
        async with af.Model(x, x + af.layers.Dense(1, kernel_initializer="zeros")(x)) as model:
            model.compile(
                "sgd", "mse", metrics=[F1(), F1(0.2, "low")], weighted_metrics=[F1(name="w", dtype=af.float32)]
            )
            data = {"x": CHANCES[:, None], "y": TRUE, "batch_size": 6, "sample_weight": WEIGHTS}
            for _ in range(2):
                found = await model.evaluate(**data, return_dict=True)
                assert [found[name] for name in ("f1", "low", "w")] == pytest.approx(
                    [f1(0.5), f1(0.2), f1(0.5, WEIGHTS)]
                )
            model.compile(af.train.GradientDescentOptimizer(0.0), "mse", metrics=[F1()])
            validation = CHANCES[:4, None], TRUE[:4]
            history = await model.fit(CHANCES[:, None], TRUE, epochs=2, verbose=0, validation_data=validation)
            assert history.history["f1"] == pytest.approx([f1(0.5)] * 2)
            right, guessed = TRUE[:4] * (CHANCES[:4] > 0.5), TRUE[:4] + (CHANCES[:4] > 0.5)
            assert history.history["val_f1"] == pytest.approx([2 * right.sum() / guessed.sum()] * 2)


async def test_a_metric_may_begin_with_ones_and_its_update_contains_the_batch():
    class Product(metrics.Metric):
        def __init__(self):
            super().__init__(dtype=af.float64)
            self.value = self.add_weight("value", initializer="ones")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.value.assign(self.value * af.cast(af.reduce_prod(y_pred), af.float64))

        def result(self):
            return self.value

    with af.Graph().as_default():
        value, update = Product()([0.0], [2.0, 3.0])
        async with af.Session() as session:
            await session.run(af.local_variables_initializer())
            assert [await session.run(update) for _ in range(2)] == [6.0, 36.0]
            assert await session.run(value) == 36.0
            assert value.dtype is af.float64


def test_a_metric_without_what_it_measures_and_variables_out_of_use_are_refused():
    with af.Graph().as_default():
        with pytest.raises(NotImplementedError, match="Metric defines neither measure, nor update_state and result"):
            metrics.Metric()([0.0], [1.0])
        with pytest.raises(AttributeError, match=r"the variable 'right' of a metric exists where the metric is used"):
            F1().right.assign(0.0)
        with pytest.raises(
            ValueError, match="the initializer of a metric is 'zeros', 'ones' or a function, not 'tens'"
        ):
            metrics.Metric().add_weight("a", initializer="tens")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: metrics.Precision(1.5), "thresholds lie between 0 and 1, not 1.5"),
        (lambda: metrics.TruePositives([]), r"thresholds lie between 0 and 1, not \[\]"),
        (lambda: metrics.AUC(curve="roc"), "curve is 'ROC' or 'PR'"),
        (lambda: metrics.AUC(summation_method="trapezoidal"), "summation_method is 'interpolation'"),
        (lambda: metrics.RecallAtPrecision(2.0), "a rate lies between 0 and 1"),
        (lambda: metrics.RecallAtPrecision(0.5, 0), "num_thresholds is at least 1"),
        (lambda: metrics.F1Score("mean"), "average is None, 'micro', 'macro' or 'weighted'"),
        (lambda: metrics.FBetaScore(beta=0), "beta is more than 0"),
        (lambda: metrics.F1Score(threshold=2), "threshold is more than 0 and at most 1"),
        (lambda: metrics.IoU(3, [3]), "target_class_ids are classes below 3"),
        (lambda: metrics.R2Score("mean"), "class_aggregation is"),
        (lambda: metrics.R2Score(num_regressors=-1), "num_regressors is at least 0"),
        (lambda: metrics.F1Score()(TRUE, CHANCES), r"predictions are \[batch, classes\]"),
        (lambda: metrics.R2Score()(TRUE, CHANCES), r"predictions are \[batch, outputs\]"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(made, text):
    with af.Graph().as_default(), pytest.raises(ValueError, match=text):
        made()
