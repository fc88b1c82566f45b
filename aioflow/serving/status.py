"""The state of a version, as status requests show it."""

import dataclasses
from typing import Literal, TypeAlias

from aioflow import errors

State: TypeAlias = Literal["loading", "available", "ending", "ended", "failed"]
"""A version is loaded and warmed up, then available, then ending while its last requests run. `failed`: not loaded."""


@dataclasses.dataclass(frozen=True, slots=True)
class VersionStatus:
    """The state of a version.

    Attributes:
        version: its number.
        state: its state.
        labels: the labels that name it.
        error: why it could not be loaded, if it has failed.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
        >>> _ = await af.saved_model.save(session, "models/double", {"serving_default": signature}, version=1)
        >>> async with af.serving.Models() as models:
        ...     version = await models.add("double", "models/double")
        ...     print(models.status("double")[0])
        VersionStatus(version=1, state='available', labels=(), error=None)
    """

    version: int
    state: State
    labels: tuple[str, ...] = ()
    error: errors.OpError | None = None
