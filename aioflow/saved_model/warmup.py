"""A warm-up request: inputs that a server runs before it makes a model available."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from aioflow.saved_model.signature import SERVING_DEFAULT


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WarmUpRequest:
    """A request that a server runs before it makes a model available, so that the first user waits for no planning.

    Attributes:
        inputs: a value for each input.
        signature: the name of the signature.

    Examples:
        >>> request = af.saved_model.WarmUpRequest({"x": np.zeros([1, 2], np.float32)})
    """

    inputs: Mapping[str, Any]
    signature: str = SERVING_DEFAULT
