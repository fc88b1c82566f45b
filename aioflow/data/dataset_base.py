"""The common base of the groups of methods that make up `Dataset`."""

from typing import TYPE_CHECKING, Final

from aioflow.data.stage import Stage

if TYPE_CHECKING:
    from aioflow.data.dataset import Dataset


class DatasetBase:
    """A dataset, without methods.

    Attributes:
        stage: its last stage.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage: Final = stage

    def _followed_by(self, stage: Stage) -> "Dataset":
        """Return the dataset whose last stage is this one."""
        raise NotImplementedError
