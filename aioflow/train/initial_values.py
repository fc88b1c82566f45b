"""Variables that begin with values of a checkpoint: `init_from_checkpoint`."""

from collections.abc import Mapping, Sequence
from typing import Any

from aioflow.checkpoint import Checkpoint
from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import constant
from aioflow.kernels.state.checkpoint import restore_tensor
from aioflow.kernels.state.variables import assign_variable
from aioflow.library.partitioned_variables import PartitionedVariable
from aioflow.library.variables import Variable
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import TensorShape
from aioflow.tensors.recursion import safe_repr
from aioflow.train.checkpoints import opened
from aioflow.train.savable import Entry, SavedVariable, stored_name, to_save
from aioflow.train.saving import file_device

Given = Variable | PartitionedVariable | Sequence[Variable]
"""A variable, one in parts, or variables that hold consecutive rows of a tensor."""


def init_from_checkpoint(ckpt_dir_or_file: Path, assignment_map: Mapping[str, Any]) -> None:
    """Give variables new initializers, which read their values from a checkpoint.

    Call it after the variables are created, and before `global_variables_initializer`: initializers that were built
    before keep the old values. The values are read on the tasks of the variables when the initializers run; only names,
    dtypes and shapes are checked here. Blocks while it opens the checkpoint.

    Args:
        ckpt_dir_or_file: a checkpoint, or a directory, whose newest one is taken.
        assignment_map: from a name in the checkpoint to a variable, to a list of variables that hold consecutive rows,
            to a partitioned variable, or to the name of a variable. From a scope with a slash at its end, as
            `encoder/`, to another one: all variables of the second get the tensors of the same names in the first; `/`
            stands for no scope.

    Raises:
        NotFoundError: there is no checkpoint.
        ValueError: the checkpoint has no such tensor, or one of another dtype or shape; or there is no such variable.

    Examples:
        >>> trained = af.Variable(7.0, name="trained")
        >>> await session.run(trained.initializer)
        >>> path = await af.train.Saver([trained]).save(session, "run/trained", 1)
        >>> fresh = af.Variable(0.0, name="fresh")
        >>> af.train.init_from_checkpoint(path, {"trained": fresh})
        >>> await session.run(fresh.initializer)
        >>> await session.run(fresh)
        np.float32(7.0)
    """
    checkpoint = opened(ckpt_dir_or_file)
    graph = get_default_graph()
    chosen = [pair for name, target in assignment_map.items() for pair in _pairs(graph, checkpoint, name, target)]
    with graph.transaction():
        for name, target in chosen:
            for saved in to_save({name: target}):
                assert isinstance(saved, SavedVariable)
                check_stored(checkpoint, saved.variable.name, saved.entries[0])
                set_initial_value(saved.variable, stored_value(checkpoint, saved.entries[0], saved.variable))


def _pairs(graph: Graph, checkpoint: Checkpoint, name: str, target: Any) -> list[tuple[str, Given]]:
    """Return the names in the checkpoint and the variables that an entry of the map means."""
    if isinstance(target, (PartitionedVariable, Variable, list, tuple)):
        return [(name, target)]
    if not isinstance(target, str):
        raise TypeError(
            f"{name!r} is mapped to a variable, to a list of them, or to a name, not to {safe_repr(target)}"
        )
    variables = {each.op.name: each for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)}
    if not target.endswith("/"):
        if target not in variables:
            raise ValueError(f"{name!r} is mapped to {target!r}, and the graph has no variable of that name")
        return [(name, variables[target])]
    if not name.endswith("/"):
        raise ValueError(f"{name!r} is mapped to the scope {target!r}: a scope in the checkpoint ends with '/', too")
    inside, outside = "" if target == "/" else target, "" if name == "/" else name
    found = {
        own: outside + stored_name(each).removeprefix(inside)
        for own, each in variables.items()
        if own.startswith(inside)
    }
    if not found:
        raise ValueError(f"the graph has no variable in the scope {target!r}")
    if missing := [own for own, stored in found.items() if stored not in checkpoint.tensors]:
        raise ValueError(
            f"the checkpoint {checkpoint.path!r} has no {found[missing[0]]!r} for the variable {missing[0]!r}; "
            f"it has {', '.join(sorted(checkpoint.tensors)[:20])}"
        )
    return [(stored, variables[own]) for own, stored in found.items()]


def check_stored(checkpoint: Checkpoint, variable: str, entry: Entry) -> None:
    """Raise ValueError if a checkpoint has no tensor for a variable, or one of another dtype or shape."""
    stored = checkpoint.tensors.get(entry.name)
    if stored is None:
        listed = ", ".join(sorted(checkpoint.tensors)[:20])
        raise ValueError(f"the checkpoint {checkpoint.path!r} has no tensor {entry.name!r} for {variable!r}: {listed}")
    shape = TensorShape(entry.part[0]) if entry.part else entry.shape
    if stored.dtype is not entry.dtype or not shape.is_compatible_with(stored.shape):
        raise ValueError(
            f"{variable!r} needs {entry.dtype.name}{shape}, and {entry.name!r} of the checkpoint {checkpoint.path!r} "
            f"is {stored.dtype.name}{list(stored.shape)}"
        )


def stored_value(checkpoint: Checkpoint, entry: Entry, variable: Variable) -> Tensor:
    """Return a tensor of a checkpoint, or a part of it, which is read on the task of the variable."""
    graph = variable.graph
    place = graph.device(file_device(variable.op) or None)
    with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(None, ignore_existing=True), place:
        every = constant([], dtypes.string, [0])
        return restore_tensor(checkpoint.path, False, every, entry.name, entry.dtype, entry.shape, entry.part)


def set_initial_value(variable: Variable, value: Tensor) -> None:
    """Let the initializer of a variable assign that value."""
    graph = variable.graph
    with (
        graph.as_default(),
        graph.control_dependencies(None),
        graph.colocate_with(variable.handle, ignore_existing=True),
    ):
        variable.begin_with(value, assign_variable(variable.handle, value).op)
