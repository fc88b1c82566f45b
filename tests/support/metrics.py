"""Running a metric over batches; counts at thresholds in NumPy."""

import numpy as np

import aioflow as af


async def over_batches(build, *batches, known="ranks", config=None):
    """The updates, one for each batch, and the values: before the first batch, and after each.

    `build` makes the metric of tensors for the arrays of a batch. Of their shapes the graph knows "sizes", "ranks" or
    "nothing".
    """
    arrays = [[np.asarray(value) for value in batch] for batch in batches]
    with af.Graph().as_default() as graph:
        shapes = [{"sizes": a.shape, "ranks": [None] * a.ndim, "nothing": None}[known] for a in arrays[0]]
        inputs = [af.placeholder(a.dtype, shape) for a, shape in zip(arrays[0], shapes, strict=True)]
        value, update = build(*inputs)
        initialize = af.local_variables_initializer()
    async with af.Session(graph=graph, config=config) as session:
        await session.run(initialize)
        updates, values = [], [await session.run(value)]
        for batch in arrays:
            updates.append(await session.run(update, dict(zip(inputs, batch, strict=True))))
            values.append(await session.run(value))
    return updates, values


KINDS = ("true_positives", "false_positives", "true_negatives", "false_negatives")
TIES = np.float32([0.0, 0.25, 0.5, 0.75, 1.0])
"""Predictions that equal thresholds."""


def counts_at(thresholds, batches):
    """The sum of weights of each kind, at each threshold."""
    found = dict.fromkeys(KINDS, 0.0)
    for labels, predictions, weights in batches:
        above = predictions > np.float32(thresholds).reshape(-1, *[1] * labels.ndim)
        weights = np.broadcast_to(weights, labels.shape)
        axes = tuple(range(1, labels.ndim + 1))
        for kind, which in zip(
            KINDS, [above & labels, above & ~labels, ~above & ~labels, ~above & labels], strict=True
        ):
            found[kind] = found[kind] + (which * weights).sum(axes)
    return found


def scored_batches(weights, ties=False):
    """Two batches of labels, probabilities and weights; with `ties` some probabilities equal thresholds."""
    random = np.random.default_rng(5)
    return [
        (
            random.integers(0, 2, (4, 3)) > 0,
            random.choice(TIES, (4, 3)) if ties else random.uniform(0, 1, (4, 3)).astype(np.float32),
            random.choice([0.0, 0.3, 2.0], weights).astype(np.float32),
        )
        for _ in range(2)
    ]
