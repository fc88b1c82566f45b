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

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.serving.batching import Batching as Batching
from aioflow.serving.failures import http_error as http_error
from aioflow.serving.limits import Limits as Limits
from aioflow.serving.metrics import Metrics as Metrics
from aioflow.serving.models import Models as Models
from aioflow.serving.on_aiohttp import aiohttp_app as aiohttp_app
from aioflow.serving.on_asgi import asgi_app as asgi_app
from aioflow.serving.on_grpc import grpc_server as grpc_server
from aioflow.serving.publication import Publication as Publication
from aioflow.serving.replica import Replica as Replica
from aioflow.serving.replica import ReplicaStatus as ReplicaStatus
from aioflow.serving.served_version import ServedVersion as ServedVersion
from aioflow.serving.status import VersionStatus as VersionStatus

__all__ = ["Batching", "Limits", "Metrics", "Models", "Publication", "Replica", "ReplicaStatus", "ServedVersion",
    "VersionStatus", "aiohttp_app", "asgi_app", "grpc_server", "http_error"]
