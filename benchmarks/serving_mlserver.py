"""The model that MLServer serves in `serving_peers`."""

from typing import Any

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

from benchmarks.serving_peers import logits, weights


class Net(MLModel):  # type: ignore[misc]
    """The MLP."""

    async def load(self) -> bool:
        """Make the weights."""
        self.layers: Any = weights()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Return the logits of a batch."""
        found = logits(self.layers, NumpyCodec.decode_input(payload.inputs[0]))
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("logits", found)])
