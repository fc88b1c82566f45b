"""Optimizers around another optimizer, which applies the gradients that they change."""

from collections.abc import Iterable
from typing import Any, Final

from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation
from aioflow.library.variables import Variable
from aioflow.train.optimizer import Gradient, Optimizer


class WrappingOptimizer(Optimizer):
    """An optimizer around another, of which it has gradients, slots and variables.

    Args:
        opt: the optimizer inside.
        use_locking: for compatibility: every update is atomic.
        name: the name of the operations.
    """

    def __init__(self, opt: Optimizer, use_locking: bool, name: str) -> None:
        super().__init__(use_locking, name)
        self._opt: Final = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Gradient | None, Any]]:
        """The gradients, as the optimizer inside computes them: see `Optimizer.compute_gradients`."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The slot of the optimizer inside."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """The names of slots of the optimizer inside."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        """All variables of the optimizer inside."""
        return self._opt.variables()


def part_of_training(applied: Operation) -> Operation:
    """The operation that an optimizer inside has just made: what trains is the whole, so it is not listed as that."""
    trains = applied.graph.get_collection_ref(GraphKeys.TRAIN_OP)
    trains.remove(applied)
    applied.graph.on_failure(lambda: trains.append(applied))
    return applied


def with_gradients(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Gradient, Any]]:
    """The pairs that have a gradient. ValueError if none has."""
    pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
    if not pairs:
        raise ValueError("there is no gradient for any variable")
    return pairs
