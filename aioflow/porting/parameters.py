"""The parameters of a graph, counted [P15 section 6]."""

import dataclasses

from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterReport:
    """How many parameters a graph has: (name, shape, dtype, count, trainable) of each variable.

    Examples:
        >>> v = af.Variable(af.zeros([3, 4]), trainable=False)
        >>> report = af.parameter_report()
        >>> report.total, report.trainable
        (12, 0)
    """

    rows: tuple[tuple[str, tuple[int, ...], str, int, bool], ...]

    @property
    def total(self) -> int:
        """Parameters of all variables."""
        return sum(row[3] for row in self.rows)

    @property
    def trainable(self) -> int:
        """Parameters of the trainable ones."""
        return sum(row[3] for row in self.rows if row[4])

    def __str__(self) -> str:
        width = max(len(name) for name in ["total", *[row[0] for row in self.rows]])
        lines = [
            f"{name:<{width}}  {count:>12,}  {dtype}{list(shape)}{'' if trainable else '  not trainable'}"
            for name, shape, dtype, count, trainable in self.rows
        ]
        return "\n".join([*lines, f"{'total':<{width}}  {self.total:>12,}  {self.trainable:,} of them trainable"])


def parameter_report(graph: Graph | None = None) -> ParameterReport:
    """The variables of a graph (the default one if None) with their sizes. ValueError if a shape is open.

    Examples:
        >>> weights = af.Variable(af.zeros([784, 10]), name="weights")
        >>> print(af.parameter_report(af.get_default_graph()))
        weights         7,840  float32[784, 10]
        total           7,840  7,840 of them trainable
    """
    graph = get_default_graph() if graph is None else graph
    trainable = {id(variable) for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    rows = []
    for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES):
        count = variable.shape.num_elements()
        if count is None:
            raise ValueError(
                f"variable {variable.op.name!r} has shape {variable.shape}: its parameters cannot be counted"
            )
        shape = tuple(variable.shape.as_list())
        rows.append((variable.op.name, shape, variable.dtype.name, count, id(variable) in trainable))
    return ParameterReport(tuple(rows))
