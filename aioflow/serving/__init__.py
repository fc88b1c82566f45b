"""Serving: models behind the calls of other programs, in versions that are replaced while requests come.

`models.Models` has the models by name, `served_version.ServedVersion` runs the requests of one version. Input: arrays
by name. Output: arrays by name. Protocols are built on these two.

A model comes from a directory (`served_model`, by way of `version_loader`) or from training in this process
(`publication`). `choice` decides which version a request gets, and `signature_runner` checks a request and runs it.
This folder may use everything below it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.serving.batching": "Batching",
    "aioflow.serving.models": "Models",
    "aioflow.serving.publication": "Publication",
    "aioflow.serving.served_version": "ServedVersion",
    "aioflow.serving.status": "VersionStatus",
})  # fmt: skip
