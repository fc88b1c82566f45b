"""`af.saved_model.tag_constants`: the uses of a graph. A directory of aioflow has one graph, so tags choose none."""

from typing import Final

from aioflow.lazy import Face

GPU: Final = "gpu"
SERVING: Final = "serve"
TPU: Final = "tpu"
TRAINING: Final = "train"
Face(__name__, {__name__: "GPU SERVING TPU TRAINING"})
