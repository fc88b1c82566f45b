"""Checkpoints outside of graphs, under TensorFlow's names. These functions block: call them on a thread."""

from typing import Final

from aioflow import errors
from aioflow.checkpoint import Checkpoint
from aioflow.checkpoint import latest_checkpoint as newest
from aioflow.files.filesystem import Path, as_name
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType
from aioflow.train.checkpoint_states import get_checkpoint_state


class CheckpointReader:
    """A checkpoint that is read tensor by tensor, made by `load_checkpoint`.

    Examples:
        >>> state = af.Variable([1, 2], name="state")
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "run/reader", 1)
        >>> af.train.load_checkpoint(path).has_tensor("state")
        True
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint: Final = checkpoint

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return {name: shape}."""
        return {name: [*stored.shape] for name, stored in self._checkpoint.tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return {name: dtype}."""
        return {name: stored.dtype for name, stored in self._checkpoint.tensors.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of that name."""
        return tensor_str in self._checkpoint.tensors

    def get_tensor(self, tensor_str: str) -> AnyArray:
        """Return the tensor of that name. NotFoundError if there is none, DataLossError if it is damaged."""
        return self._checkpoint.read(tensor_str)


def latest_checkpoint(checkpoint_dir: Path, latest_filename: str | None = None) -> str | None:
    """Return the path of the newest valid checkpoint in a directory; None if there is none.

    Args:
        checkpoint_dir: the directory.
        latest_filename: a file there that names the newest checkpoint, as `update_checkpoint_state` writes it. By
            default the checkpoints themselves say when they were saved.

    Examples:
        >>> state = af.Variable(7)
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "run/model", 100)
        >>> af.train.latest_checkpoint("run")
        'run/model-100'
    """
    if latest_filename is None:
        return newest(checkpoint_dir)
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    return state.model_checkpoint_path if state and checkpoint_exists(state.model_checkpoint_path) else None


def checkpoint_exists(checkpoint_prefix: Path) -> bool:
    """Whether there is a checkpoint at that path, of a known version and with files of the right sizes.

    Examples:
        >>> af.train.checkpoint_exists("run/missing")
        False
    """
    try:
        Checkpoint.open(checkpoint_prefix)
    except (errors.NotFoundError, errors.DataLossError, errors.UnimplementedError, errors.FailedPreconditionError):
        return False
    return True


def load_checkpoint(ckpt_dir_or_file: Path) -> CheckpointReader:
    """Open the checkpoint at that path, or the newest one in that directory.

    Raises:
        NotFoundError: there is no checkpoint.
        DataLossError, UnimplementedError: it is damaged, or of another version.

    Examples:
        >>> state = af.Variable([1, 2], name="state")
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "run/loaded", 1)
        >>> af.train.load_checkpoint(path).get_tensor("state")
        array([1, 2], dtype=int32)
    """
    return CheckpointReader(opened(ckpt_dir_or_file))


def opened(ckpt_dir_or_file: Path) -> Checkpoint:
    """Open the checkpoint at that path, or the newest one in that directory. Raises the errors of `load_checkpoint`."""
    path = ckpt_dir_or_file if checkpoint_exists(ckpt_dir_or_file) else newest(ckpt_dir_or_file)
    return Checkpoint.open(ckpt_dir_or_file if path is None else path)


def list_variables(ckpt_dir_or_file: Path) -> list[tuple[str, list[int]]]:
    """Return (name, shape) of the tensors of a checkpoint, sorted. Raises the errors of `load_checkpoint`.

    Examples:
        >>> state = af.Variable([1, 2], name="state")
        >>> await session.run(state.initializer)
        >>> af.train.list_variables(await af.train.Saver().save(session, "run/model", 100))
        [('state', [2])]
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: Path, name: str) -> AnyArray:
    """Return the tensor of that name in a checkpoint; `weights:0` means `weights`. Raises as `load_checkpoint` does.

    Examples:
        >>> state = af.Variable([1, 2], name="state")
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "run/state", 1)
        >>> af.train.load_variable(path, "state")
        array([1, 2], dtype=int32)
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(as_name(name).removesuffix(":0"))
