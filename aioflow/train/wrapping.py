"""The base of optimizers that change gradients and pass them to an inner optimizer."""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Gradient, Optimizer


class WrappingOptimizer(Optimizer):
    """An optimizer around an inner one, from which it has gradients, slots and variables.

    Args:
        opt: the inner optimizer.
        use_locking: for compatibility: every update is atomic.
        name: the name of the operations.
    """

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt: Final = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Gradient | None, Any]]:
        """Return the gradients of the inner optimizer: see `Optimizer.compute_gradients`."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot of the inner optimizer."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of slots of the inner optimizer."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        """Return all variables of the inner optimizer."""
        return self._opt.variables()


def part_of_training(applied: Operation) -> Operation:
    """Return the inner train operation, removed from the collection of train operations: the outer one is listed."""
    trains = applied.graph.get_collection_ref(GraphKeys.TRAIN_OP)
    trains.remove(applied)
    applied.graph.on_failure(lambda: trains.append(applied))
    return applied


def with_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Gradient, Any]]:
    """Return the pairs with a gradient. ValueError if there is none."""
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    if not pairs:
        raise ValueError("there is no gradient for any variable")
    return pairs
