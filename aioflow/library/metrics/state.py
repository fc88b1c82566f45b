"""The state of a metric: local variables that sum up batches, and the pair of tensors that every metric returns.

The value of a metric is built after its update. So a run that fetches both gets a value that contains the batch. Each
variable is updated atomically: no batch is lost, however many steps run at a time. The variables of one metric are
updated one after the other, as in TensorFlow, so that a step may see the sum of another step without its count.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.math.arithmetic import maximum
from aioflow.kernels.math.no_nan import div_no_nan
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import DTypeLike, ShapeLike, as_shape

Pair: TypeAlias = tuple[Tensor, Tensor]
"""The value of a metric, and an operation that adds a batch and returns the new value."""
Collections: TypeAlias = str | Iterable[str] | None
"""The name of a collection, several, or None for none."""


class Sum(NamedTuple):
    """A variable that sums up batches, and its value after this batch."""

    variable: Variable
    updated: Tensor


def metric_variable(
    shape: ShapeLike, dtype: DTypeLike, name: str | None = None, initial: Callable[..., Tensor] = zeros
) -> Variable:
    """Return a variable in the collections LOCAL_VARIABLES and METRIC_VARIABLES, of zeros by default.

    `af.local_variables_initializer()` gives it its first value `initial(shape, dtype)` again.
    """
    shared = _SHARED.get()
    found = None if shared is None else shared.next()
    if found is None:
        keys = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
        found = Variable(lambda: initial(as_shape(shape), dtype), trainable=False, collections=keys, name=name)
        if shared is not None:
            shared.add(found)
    return found


class SharedVariables:
    """Variables of metrics that are built several times, such as once for each worker, and add up the same sums."""

    def __init__(self) -> None:
        self._made: Final[list[Variable]] = []
        self._used = 0

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Build metrics inside the block. All blocks build the same ones; the first makes the variables."""
        self._used = 0
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)

    def next(self) -> Variable | None:
        """The next variable of an earlier block; None if there is none."""
        found = self._made[self._used] if self._used < len(self._made) else None
        self._used += 1
        return found

    def add(self, variable: Variable) -> None:
        """Keep a variable for further blocks."""
        self._made.append(variable)


_SHARED: Final[contextvars.ContextVar[SharedVariables | None]] = contextvars.ContextVar("shared", default=None)


def sum_up(batch: Tensor, name: str) -> Sum:
    """Return a new variable to which each run of its update adds `batch`."""
    variable = metric_variable(batch.shape, batch.dtype, name=name)
    return Sum(variable, variable.assign_add(batch))


def metric(
    compute: Callable[..., Tensor],
    sums: Sequence[Sum],
    metrics_collections: Collections,
    updates_collections: Collections,
) -> Pair:
    """Return the value and the update of a metric, which join those collections.

    `compute(*sums, name=)` returns the metric for the values of the variables.
    """
    update = compute(*[each.updated for each in sums], name="update_op")
    value = compute(*[each.variable.value() for each in sums], name="value")
    return publish(value, update, metrics_collections, updates_collections)


def publish(value: Tensor, update: Tensor, metrics_collections: Collections, updates_collections: Collections) -> Pair:
    """Return the pair, of which each joins its collections."""
    for keys, tensor in ((metrics_collections, value), (updates_collections, update)):
        if keys:
            get_default_graph().add_to_collections(keys, tensor)
    return value, update


def ratio(part: Tensor, whole: Tensor, name: str | None = None) -> Tensor:
    """Return part / whole, and 0 where the whole is 0 or less."""
    return div_no_nan(part, maximum(whole, 0), name=name)
