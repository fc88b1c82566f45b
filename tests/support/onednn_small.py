"""A pytest plugin: oneDNN computes small arrays too, which aioflow leaves to NumPy because that is as fast."""

import pytest

from aioflow.kernels.nn import (
    onednn_activation,
    onednn_convolution,
    onednn_fused_convolution,
    onednn_layer_norm,
    onednn_local_response,
    onednn_normalisation,
    onednn_pooling,
    onednn_softmax,
)


@pytest.fixture
def even_for_small_arrays(monkeypatch):
    for module in (
        onednn_activation, onednn_convolution, onednn_fused_convolution, onednn_layer_norm, onednn_local_response,
        onednn_normalisation, onednn_pooling, onednn_softmax,
    ):  # fmt: skip
        monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(onednn_convolution, "SLOW_SMALL", 0)
