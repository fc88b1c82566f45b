"""A callback that evaluates a model with moving averages of its weights."""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aioflow.graph.operation import Operation
from aioflow.kernels.array.constants import zeros
from aioflow.layers.callback import Callback, Logs
from aioflow.layers.numbers import rate, switch
from aioflow.library.control import colocate_with, group
from aioflow.library.variables import Variable

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable


class _Averages(NamedTuple):
    """The averages of a model.

    Attributes:
        model: the model.
        weights: its weights that are trained.
        variables: an average for each.
        update: counts the present weights in.
    """

    model: "Trainable"
    weights: list[Variable]
    variables: list[Variable]
    update: Operation


class SwapEMAWeights(Callback):
    """Validates with moving averages of the weights in place of the weights, and leaves the averages at the end.

    After each step of training an average becomes momentum * average + (1 - momentum) * weight; the first one is the
    weight after the first step. Training itself goes on with the weights.

    Args:
        swap_on_epoch: whether the averages also stand in place of the weights from the end of an epoch to the next
            step, so that a `ModelCheckpoint` after it in the list saves them.
        momentum: the part of an average that stays. Keras has it in the optimizer, as `ema_momentum`.

    Examples:
        >>> model = af.Sequential([af.layers.Input([1]), af.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> swap = af.callbacks.SwapEMAWeights(momentum=0.9)
        >>> history = await model.fit(np.ones([4, 1]), np.ones([4, 1]), epochs=2, verbose=0, callbacks=[swap])
    """

    def __init__(self, swap_on_epoch: bool = False, momentum: float = 0.99) -> None:
        """ValueError for a momentum outside of [0, 1)."""
        self.swap_on_epoch: Final = switch("swap_on_epoch", swap_on_epoch)
        self.momentum: Final = rate("momentum", momentum)
        self._built: _Averages | None = None
        self._restored: list[Any] | None = None
        self._has_values = self._swapped = False

    def on_train_begin(self, logs: Logs) -> None:
        """Begin anew."""
        self._restored, self._has_values, self._swapped = None, False, False

    async def backup_state(self) -> Any:
        """The averages, and whether they are in place of the weights."""
        if not self._has_values:
            return None
        return {"averages": await self.session.run(self._averages().variables), "swapped": self._swapped}

    def restore_state(self, state: Any) -> None:
        """Go on with them, as soon as the weights have their values."""
        self._restored, self._swapped = state["averages"], state["swapped"]

    async def on_train_batch_begin(self, batch: int, logs: Logs) -> None:
        """Take the weights again."""
        await self._take_restored()
        if self._swapped:
            await self._swap()

    async def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Count the weights in."""
        averages = self._averages()
        if self._has_values:
            await self.session.run(averages.update)
        else:
            await self._begin_with(await self.session.run(averages.weights))

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Take the averages, if they are wanted after epochs."""
        if self.swap_on_epoch and self._has_values and not self._swapped:
            await self._swap()

    async def on_test_begin(self, logs: Logs) -> None:
        """Take the averages."""
        if self._has_values and not self._swapped:
            await self._swap()

    async def on_test_end(self, logs: Logs) -> None:
        """Take the weights again."""
        if self._swapped:
            await self._swap()

    async def on_train_end(self, logs: Logs) -> None:
        """Leave the averages as weights."""
        await self._take_restored()
        if self._has_values and not self._swapped:
            await self._swap()
        self._has_values = self._swapped = False

    async def _take_restored(self) -> None:
        if self._restored is not None:
            await self._begin_with(self._restored)
            self._restored = None

    async def _begin_with(self, values: list[Any]) -> None:
        await self.model.assign_all(self._averages().variables, values, self.session)
        self._has_values = True

    async def _swap(self) -> None:
        _, weights, averages, _ = self._averages()
        values = await self.session.run([*averages, *weights])
        await self.model.assign_all([*weights, *averages], values, self.session)
        self._swapped = not self._swapped

    def _averages(self) -> _Averages:
        """The averages of the model, built once for weights to train."""
        weights = self.model.trainable_weights
        if self._built is None or self._built.model is not self.model or self._built.weights != weights:
            with self.model.graph.as_default():
                self._built = _built(self.model, weights, self.momentum)
        return self._built


def _built(model: "Trainable", weights: list[Variable], momentum: float) -> _Averages:
    variables = [_average_of(weight) for weight in weights]
    updates = [
        average.assign(momentum * average + (1 - momentum) * weight).op
        for average, weight in zip(variables, weights, strict=True)
    ]
    return _Averages(model, weights, variables, group(*updates, name="average_weights"))


def _average_of(weight: Variable) -> Variable:
    """A variable like the weight beside it, in no collection: savers and initializers of a graph do not see it."""
    sizes = [size or 0 for size in weight.shape.as_list()]
    with colocate_with(weight.op):
        return Variable(lambda: zeros(sizes, weight.dtype), False, [], name="average", dtype=weight.dtype)
