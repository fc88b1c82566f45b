"""`af.train.experimental`: loss scales, which keep small gradients of float16 from becoming 0."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.train.loss_scale_optimizer": "MixedPrecisionLossScaleOptimizer",
    "aioflow.train.loss_scales": "DynamicLossScale FixedLossScale LossScale",
})  # fmt: skip
