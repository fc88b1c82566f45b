"""Moving averages of variables; models often perform better with them than with the last values."""

from collections.abc import Iterable

from aioflow.graph.building import get_default_graph, graph_to_build_in
from aioflow.graph.convert import NumberLike
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.math.arithmetic import minimum
from aioflow.library.control import group
from aioflow.library.state import moving_average_variables, trainable_variables
from aioflow.library.variables import Variable
from aioflow.train.numbers import as_number
from aioflow.train.optimizer import create_slot


class ExponentialMovingAverage:
    """Keeps for each variable a shadow: shadow -= (1 - decay) * (shadow - variable).

        averages = af.train.ExponentialMovingAverage(0.999)
        with af.control_dependencies([train]):
            train = averages.apply(variables)

    Args:
        decay: the share of the shadow that stays at each update, near 1.
        num_updates: the number of updates so far, such as the global step. It limits the share that stays to
            (1 + num_updates) / (10 + num_updates), so that shadows move faster at first.
        zero_debias: for compatibility: shadows begin at their variable's first value, so nothing pulls them to zero.
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
        self._name = name
        self._averages: dict[tuple[Graph, str], Variable] = {}

    @property
    def name(self) -> str:
        """The name of the averages."""
        return self._name

    def apply(self, var_list: Iterable[Variable] | None = None) -> Operation:
        """Return an operation that updates the shadows of these variables, by default of the trainable ones.

        Creates missing shadows. They join GLOBAL_VARIABLES, and their variables join MOVING_AVERAGE_VARIABLES.

        Raises:
            TypeError: an element is no variable of floating dtype.
        """
        variables = trainable_variables() if var_list is None else list(var_list)
        graph = graph_to_build_in(variables[0].graph) if variables else get_default_graph()
        with graph.transaction(), graph.as_default():
            for variable in variables:
                self._make_shadow(graph, variable)
            with graph.name_scope(self._name) as scope:
                return group(*[self._update(variable) for variable in variables], name=scope)

    def _make_shadow(self, graph: Graph, variable: Variable) -> None:
        if not isinstance(variable, Variable) or not variable.dtype.is_floating:
            raise TypeError(f"moving averages are kept of variables of floating dtype, not of {variable!r}")
        key = graph, variable.op.name
        if key in self._averages:
            return
        self._averages[key] = create_slot(variable, variable.initialized_value, self._name)
        graph.on_failure(lambda: self._averages.pop(key))
        if variable not in moving_average_variables():
            graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, variable)

    def _update(self, variable: Variable) -> Operation:
        shadow = self._averages[variable.graph, variable.op.name]
        with graph_to_build_in(variable.graph).colocate_with(shadow.handle, ignore_existing=True):
            step = (shadow - variable) * (1 - self._share_kept(variable))
            moved: Operation = shadow.assign_sub(step, read_value=False)
            return moved

    def _share_kept(self, variable: Variable) -> Tensor:
        decay = as_number(self._decay, variable.dtype, "decay")
        if self._num_updates is None:
            return decay
        count = as_number(self._num_updates, variable.dtype)
        return minimum(decay, (1 + count) / (10 + count))

    def average(self, var: Variable) -> Variable | None:
        """Return the shadow of a variable, None if it has none."""
        return self._averages.get((var.graph, var.op.name))

    def average_name(self, var: Variable) -> str:
        """Return the name of the operation that is, or would be, the shadow of a variable."""
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
