"""Serving: models behind the calls of other programs, in versions that are replaced while requests come.

`models.Models` has the models by name, `served_version.ServedVersion` runs the requests of one version. Input: arrays
by name. Output: arrays by name. Protocols are built on these two: `on_aiohttp` and `on_asgi` hand requests of HTTP to
`service.Service`, which chooses a handler of `open_inference` or `tensorflow_rest`, and `on_grpc` calls of gRPC, for
those of `open_inference_grpc`. `conversation` is a stream over a websocket. `server` is a whole server; its
`connection`s answer most requests without a framework.

A model comes from a directory (`served_model`, by way of `version_loader`) or from training in this process
(`publication`). `choice` decides which version a request gets, and `signature_runner` checks a request and runs it.
A `record` of each request that has ended goes to `access_log` and `metrics`. `spans` shows requests and batches to
OpenTelemetry. `web_pages` knows which pages in browsers may ask. This folder may use everything below it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.serving.batching": "Batching",
    "aioflow.serving.failures": "http_error",
    "aioflow.serving.limits": "Limits",
    "aioflow.serving.metrics": "Metrics",
    "aioflow.serving.models": "Models",
    "aioflow.serving.on_aiohttp": "aiohttp_app",
    "aioflow.serving.on_asgi": "asgi_app",
    "aioflow.serving.on_grpc": "grpc_server",
    "aioflow.serving.publication": "Publication",
    "aioflow.serving.replica": "Replica ReplicaStatus",
    "aioflow.serving.served_version": "ServedVersion",
    "aioflow.serving.status": "VersionStatus",
})  # fmt: skip
