"""Moving averages of variables and tensors; models often perform better with averages than with the last values."""

from collections.abc import Iterable

from aioflow.graph import scopes
from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import zeros
from aioflow.kernels.math.arithmetic import minimum, pow
from aioflow.library.control import group
from aioflow.library.state import moving_average_variables, trainable_variables
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr
from aioflow.train.numbers import as_number
from aioflow.train.optimizer import create_slot


class ExponentialMovingAverage:
    """Keeps for each variable or tensor a shadow: shadow -= (1 - decay) * (shadow - value).

        averages = af.train.ExponentialMovingAverage(0.999)
        with af.control_dependencies([train]):
            train = averages.apply(variables)

    Args:
        decay: the share of the shadow that stays at each update, near 1.
        num_updates: the number of updates so far, such as the global step. It limits the share that stays to
            (1 + num_updates) / (10 + num_updates), so that shadows move faster at first.
        zero_debias: whether the averages of tensors are freed of the zeros that they begin with. The shadow of a
            variable begins with the variable's first value, so nothing pulls it to zero.
        name: the last part of the shadows' names, and the name scope of the updates.

    Examples:
        >>> weight, average = af.Variable(10.0), af.train.ExponentialMovingAverage(0.5)
        >>> apply = average.apply([weight])
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(weight.assign(20.0))
        np.float32(20.0)
        >>> await session.run(apply)
        >>> await session.run(average.average(weight))
        np.float32(15.0)
    """

    def __init__(
        self,
        decay: NumberLike,
        num_updates: NumberLike | None = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[tuple[Graph, str], Variable] = {}

    @property
    def name(self) -> str:
        """The name of the averages."""
        return self._name

    def apply(self, var_list: Iterable[Variable | Tensor] | None = None) -> Operation:
        """Return an operation that updates the shadows of these variables and tensors, by default the trainable ones.

        Creates missing shadows. They join GLOBAL_VARIABLES, and their variables join MOVING_AVERAGE_VARIABLES. The
        shadow of a tensor begins with zeros.

        Raises:
            TypeError: an element is no variable or tensor of floating dtype.
            ValueError: the shape of a tensor is unknown.
        """
        averaged = trainable_variables() if var_list is None else list(var_list)
        graph = graph_to_build_in(_checked(averaged[0]).graph) if averaged else get_default_graph()
        with graph.transaction(), graph.as_default():
            for each in averaged:
                self._make_shadow(graph, _checked(each))
            with graph.name_scope(self._name) as scope:
                return group(*[self._update(each) for each in averaged], name=scope)

    def _make_shadow(self, graph: Graph, averaged: Variable | Tensor) -> None:
        key = _key(averaged)
        if key in self._averages:
            return
        if isinstance(averaged, Variable):
            shadow = create_slot(averaged, averaged.initialized_value, self._name)
            if averaged not in moving_average_variables():
                graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, averaged)
        else:
            shadow = _zeros_beside(averaged, self._name)
        self._averages[key] = shadow
        graph.on_failure(lambda: self._averages.pop(key))

    def _update(self, averaged: Variable | Tensor) -> Operation:
        shadow = self._averages[_key(averaged)]
        with graph_to_build_in(averaged.graph).colocate_with(shadow.handle, ignore_existing=True):
            debiased = self._zero_debias and isinstance(averaged, Tensor)
            return assign_moving_average(shadow, averaged, self._share_kept(averaged), debiased).op

    def _share_kept(self, averaged: Variable | Tensor) -> Tensor:
        decay = as_number(self._decay, averaged.dtype, "decay")
        if self._num_updates is None:
            return decay
        count = as_number(self._num_updates, averaged.dtype)
        return minimum(decay, (1 + count) / (10 + count))

    def average(self, var: Variable | Tensor) -> Variable | None:
        """Return the shadow of a variable or tensor, None if it has none."""
        return self._averages.get(_key(var))

    def average_name(self, var: Variable | Tensor) -> str:
        """Return the name of the operation that is, or would be, the shadow of a variable or tensor."""
        shadow = self.average(var)
        return f"{var.op.name}/{self._name}" if shadow is None else shadow.op.name

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """Return {name in a checkpoint: variable}.

        For `moving_avg_variables`, by default the trainable ones and those with a shadow, it is the shadow's name.
        """
        graph = get_default_graph()
        averaged = [*trainable_variables(), *moving_average_variables()]
        chosen = averaged if moving_avg_variables is None else list(moving_avg_variables)
        names = {self.average_name(variable): variable for variable in chosen}
        taken = {variable.op.name for variable in chosen} | names.keys()
        others = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        return names | {other.op.name: other for other in others if other.op.name not in taken}


def _checked(averaged: object) -> Variable | Tensor:
    if not isinstance(averaged, (Variable, Tensor)) or not averaged.dtype.is_floating:
        raise TypeError(f"moving averages are kept of variables and tensors of floating dtype, not of {averaged!r}")
    return averaged


def _key(averaged: Variable | Tensor) -> tuple[Graph, str]:
    return averaged.graph, averaged.name


def _zeros_beside(tensor: Tensor, name: str) -> Variable:
    """Return a variable named `tensor/name` with zeros of the shape of a tensor."""
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"the average of {tensor.name!r} needs its shape, of which {tensor.shape} is known")
    graph = tensor.graph.root
    with graph.as_default(), scopes.change_scope(graph, name="", controls=()):
        return Variable(zeros(tensor.shape, tensor.dtype), trainable=False, name=f"{tensor.op.name}/{name}")


def assign_moving_average(
    variable: Variable, value: TensorLike, decay: NumberLike, zero_debias: bool = True, name: str | None = None
) -> Tensor:
    """Move a variable towards a value: variable -= (1 - decay) * (variable - value). Returns its new value.

    Args:
        variable: the average, of floating dtype.
        value: the value.
        decay: the share of the average that stays, near 1.
        zero_debias: whether the average, which begins with zeros, is freed of these [Kingma and Ba, 2015]. The biased
            average and the number of updates are then two further variables, `variable/biased` and
            `variable/local_step`.
        name: the name scope of the update.

    Raises:
        TypeError: it is no variable of floating dtype.

    Examples:
        >>> average = af.Variable(0.0, trainable=False)
        >>> update = af.train.assign_moving_average(average, 8.0, decay=0.75, zero_debias=False)
        >>> await session.run(af.global_variables_initializer())
        >>> await session.run(update)
        np.float32(2.0)
    """
    if not isinstance(variable, Variable) or not variable.dtype.is_floating:
        raise TypeError(f"a moving average is a variable of floating dtype, not {safe_repr(variable)}")
    graph = graph_to_build_in(variable.graph)
    with graph.transaction(), graph.as_default(), graph.name_scope(name or "AssignMovingAvg"):
        goal, share = convert_to_tensor(value, variable.dtype), as_number(decay, variable.dtype, "decay")
        with graph.colocate_with(variable.handle, ignore_existing=True):
            return _debiased(variable, goal, share) if zero_debias else _moved(variable, goal, share)


def _moved(variable: Variable, goal: Tensor, share: Tensor) -> Tensor:
    return variable.assign_sub((variable - goal) * (1 - share))


def _debiased(variable: Variable, goal: Tensor, share: Tensor) -> Tensor:
    """Move the biased average, and assign it without the share of the zeros that it began with."""
    biased = create_slot(variable, zeros(variable.shape, variable.dtype), "biased")
    steps = create_slot(variable, zeros([], variable.dtype), "local_step")
    moved, count = _moved(biased, goal, share), steps.assign_add(1)
    return variable.assign(moved / (1 - pow(share, count)))
