"""`af.saved_model.main_op`: the operation that initializes a model after it was loaded."""

from aioflow.graph.operation import Operation
from aioflow.lazy import Face
from aioflow.library.control import group
from aioflow.library.state import global_variables_initializer, local_variables_initializer
from aioflow.library.table_initializers import tables_initializer


def main_op() -> Operation:
    """Return an operation that initializes all variables and tables of the default graph.

    A model that `af.saved_model.load` has loaded needs none: its variables and tables have their content.

    Examples:
        >>> weight = af.Variable(7.0, name="weight")
        >>> await session.run(af.saved_model.main_op.main_op())
        >>> print(await session.run(weight))
        7.0
    """
    return group(global_variables_initializer(), local_variables_initializer(), tables_initializer())


Face(__name__, {__name__: "main_op"})
