"""The service that BentoML serves in `serving_peers`."""

import bentoml
import numpy as np

from benchmarks.serving_peers import MOST, logits, weights


@bentoml.service(workers=1, metrics={"enabled": False}, logging={"access": {"enabled": False}})  # type: ignore[untyped-decorator]
class Net:
    """The MLP."""

    def __init__(self) -> None:
        self.layers = weights()

    @bentoml.api(batchable=True, max_batch_size=MOST)  # type: ignore[untyped-decorator]
    def predict(self, images: np.ndarray) -> np.ndarray:
        """Return the logits of a batch."""
        found: np.ndarray = logits(self.layers, images)
        return found
