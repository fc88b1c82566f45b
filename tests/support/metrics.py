"""Running a metric over batches."""

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
