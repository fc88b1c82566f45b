"""The net that LitServe serves in `serving_peers`. Its processes import it by its name."""

from typing import Any

import litserve
import numpy as np

from benchmarks.serving_peers import logits, weights


class Net(litserve.LitAPI):  # type: ignore[misc]
    """The MLP."""

    def setup(self, device: str) -> None:
        """Make the weights."""
        self.layers = weights()

    def decode_request(self, request: dict[str, Any]) -> Any:
        """Return the image of a request."""
        return np.asarray(request["image"], np.float32)

    def predict(self, images: Any) -> Any:
        """Return the logits of a batch."""
        return logits(self.layers, images)

    def encode_response(self, logits: Any) -> dict[str, Any]:
        """Return the logits as JSON."""
        return {"logits": logits.tolist()}
