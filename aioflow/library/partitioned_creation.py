"""The parts of a variable as a list: `create_partitioned_variables`."""

from collections.abc import Sequence
from typing import Any

from aioflow.library.variable_scope import get_variable, variable_scope
from aioflow.library.variables import Variable


def create_partitioned_variables(
    shape: Sequence[int], slicing: Sequence[int], initializer: Any, dtype: Any = None, trainable: bool = True,
    collections: Sequence[str] | None = None, name: str | None = None, reuse: Any = None,
) -> list[Variable]:  # fmt: skip
    """Return the parts of a variable that is cut along one axis.

    Args:
        shape: the shape of the whole.
        slicing: into how many parts each axis is cut.
        initializer: a function (shape, dtype=) of the initial value of the whole, or that value.
        dtype: the dtype; float32 by default.
        trainable: whether optimizers change it.
        collections: the graph's collections that the parts join.
        name: the name; `PartitionedVariable` by default, made unique.
        reuse: whether the variable is an existing one, as in `variable_scope`.

    Examples:
        >>> parts = af.create_partitioned_variables([5, 2], [2, 1], af.zeros_initializer(), name="table")
        >>> [(part.op.name, part.shape.as_list()) for part in parts]
        [('table/part_0', [3, 2]), ('table/part_1', [2, 2])]
    """
    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        found: Any = get_variable(
            "", shape, dtype, initializer, trainable=trainable, collections=collections,
            partitioner=lambda shape, dtype: list(slicing),
        )  # fmt: skip
    return list(found)
