"""Two systems compared over many batches with a learning rate of zero [P15 section 6]."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import Any

import numpy as np

from aioflow.graph.graph_keys import GraphKeys
from aioflow.porting.comparison import Comparison, compare, distance, is_comparable
from aioflow.session import Session


async def check_learning_off(
    a: Session,
    b: Session,
    loss: Any,
    train: Any,
    batches: Iterable[Mapping[Any, Any]] | AsyncIterable[Mapping[Any, Any]],
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> list[Comparison]:
    """Check that with a learning rate of zero two systems agree on every batch, and that nothing is learned.

    Feed the learning rate, 0, as part of each batch. Variables that training changes all the same (a global step, the
    moments of an optimizer) are not looked at, only the trainable ones.

    Raises:
        AssertionError: naming the first tensor, in the order of the graph, that differs, and the batch; or the variable
            that changed.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> v = af.Variable(2.0)
        >>> loss = af.reduce_mean(af.square(v * x - 1.0))
        >>> train = af.train.GradientDescentOptimizer(0.0).minimize(loss)
        >>> await session.run(af.global_variables_initializer())
        >>> async with af.Session(config=af.Config(optimize=False)) as other:
        ...     await other.run(af.global_variables_initializer())
        ...     checked = await af.check_learning_off(session, other, loss, train, [{x: [1.0, 2.0]}])
        >>> len(checked), checked[0].first()
        (1, None)
    """
    variables = a.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)
    reads = {variable.op.name: variable._as_graph_element() for variable in variables}
    names = {name: read.name for name, read in reads.items() if is_comparable(read)}
    before = [(session, await session.run(names)) for session in (a, b)]
    comparisons = []
    async with contextlib.aclosing(_numbered(batches)) as numbered:
        async for number, batch in numbered:
            comparisons.append(await compare(a, b, [loss, train], batch))
            apart = comparisons[-1].first(rtol, atol)
            if apart is not None:
                text = f"with learning off, batch {number} differs first at {apart}\n  built at: {apart.line}"
                raise AssertionError(text)
            for session, values in before:
                changed = _changed(values, await session.run(names))
                if changed is not None:
                    raise AssertionError(f"with learning off, batch {number} changed variable {changed!r}")
    return comparisons


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The name of the first value that is not the same."""
    return next((name for name in before if distance(np.asarray(before[name]), np.asarray(after[name]))[1]), None)


async def _numbered(batches: Any) -> AsyncGenerator[tuple[int, Any], None]:
    number = 0
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield number, batch
            number += 1
    else:
        for number, batch in enumerate(batches):
            yield number, batch
