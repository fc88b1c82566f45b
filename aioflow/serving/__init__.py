"""Serving: models behind the calls of other programs, in versions that are replaced while requests come.

`models.Models` has the models by name and version, `served_version.ServedVersion` runs the requests of one version.
Input: arrays by name. Output: arrays by name. Protocols are built on these two: `on_aiohttp` and `on_asgi` hand
requests of HTTP to `service.Service`, which chooses a handler of `open_inference` or `tensorflow_rest`. This folder may
use everything below it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.serving.on_aiohttp": "aiohttp_app",
    "aioflow.serving.on_asgi": "asgi_app",
    "aioflow.serving.batching": "Batching",
    "aioflow.serving.limits": "Limits",
    "aioflow.serving.models": "Models",
    "aioflow.serving.served_version": "ServedVersion",
    "aioflow.serving.status": "VersionStatus",
})  # fmt: skip
