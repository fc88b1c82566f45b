"""Savers and the state of a directory of checkpoints as messages, with the fields and bytes of TensorFlow's."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from aioflow.kernels.data.message import Enum, Field, Message


class SaverDef(Message):
    """A Saver: its options, and the names of the operations that save and restore. `Saver.as_saver_def` makes it.

    Attributes:
        filename_tensor_name: the tensor that the path is fed to.
        save_tensor_name: the tensor that is there when the checkpoint is complete.
        restore_op_name: the operation that has restored all.
        max_to_keep: number of checkpoints to keep; 0 for all.
        sharded: whether each task writes its own file.
        keep_checkpoint_every_n_hours: one checkpoint in this many hours stays.
        version: the number of TensorFlow's format that programs expect, 2.

    Examples:
        >>> state = af.Variable(7)
        >>> af.train.Saver(max_to_keep=3).as_saver_def().max_to_keep
        3
    """

    CheckpointFormatVersion: Final = Enum("CheckpointFormatVersion", LEGACY=0, V1=1, V2=2)
    LEGACY, V1, V2 = CheckpointFormatVersion.values()
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "filename_tensor_name": Field(1, "string"),
        "save_tensor_name": Field(2, "string"),
        "restore_op_name": Field(3, "string"),
        "max_to_keep": Field(4, "int32"),
        "sharded": Field(5, "bool"),
        "keep_checkpoint_every_n_hours": Field(6, "float"),
        "version": Field(7, "enum", enum=CheckpointFormatVersion),
    }
    filename_tensor_name: str
    save_tensor_name: str
    restore_op_name: str
    max_to_keep: int
    sharded: bool
    keep_checkpoint_every_n_hours: float
    version: int

    def __init__(
        self,
        filename_tensor_name: str | None = None,
        save_tensor_name: str | None = None,
        restore_op_name: str | None = None,
        max_to_keep: int | None = None,
        sharded: bool | None = None,
        keep_checkpoint_every_n_hours: float | None = None,
        version: int | None = None,
    ) -> None:
        super().__init__(
            filename_tensor_name=filename_tensor_name, save_tensor_name=save_tensor_name,
            restore_op_name=restore_op_name, max_to_keep=max_to_keep, sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours, version=version,
        )  # fmt: skip


class CheckpointState(Message):
    """The checkpoints of a directory. `get_checkpoint_state` finds it.

    Attributes:
        model_checkpoint_path: the newest checkpoint.
        all_model_checkpoint_paths: all checkpoints, oldest first.
        all_model_checkpoint_timestamps: when each was saved, in seconds since 1970.
        last_preserved_timestamp: when the last checkpoint was saved that stays for ever.

    Examples:
        >>> state = af.train.generate_checkpoint_state_proto("run", "run/model-2", ["run/model-1", "run/model-2"])
        >>> type(state).__name__, state.model_checkpoint_path
        ('CheckpointState', 'model-2')
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "model_checkpoint_path": Field(1, "string"),
        "all_model_checkpoint_paths": Field(2, "string", repeated=True),
        "all_model_checkpoint_timestamps": Field(3, "double", repeated=True),
        "last_preserved_timestamp": Field(4, "double"),
    }
    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]
    all_model_checkpoint_timestamps: list[float]
    last_preserved_timestamp: float

    def __init__(
        self,
        model_checkpoint_path: str | None = None,
        all_model_checkpoint_paths: Iterable[str] | None = None,
        all_model_checkpoint_timestamps: Iterable[float] | None = None,
        last_preserved_timestamp: float | None = None,
    ) -> None:
        super().__init__(
            model_checkpoint_path=model_checkpoint_path, all_model_checkpoint_paths=all_model_checkpoint_paths,
            all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
            last_preserved_timestamp=last_preserved_timestamp,
        )  # fmt: skip
