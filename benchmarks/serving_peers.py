"""Servers of others with the same MLP in NumPy: `python -m benchmarks.serving_peers litserve`, `bentoml` or `mlserver`.

All of them take images as JSON alone, and gather batches of as many images as aioflow; LitServe and MLServer for as
long, BentoML for as long as it finds best. LitServe and BentoML have processes of their own for HTTP and for the net.
Their packages do not agree, so each has an environment of its own, in the folder that the variable SERVING_PEERS names;
without it the benchmark shows that they are not installed.
"""

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import numpy as np

from benchmarks.mlp import Problem, with_numpy

MOST, DELAY, PATIENCE = 64, 0.002, 5


def weights() -> Any:
    """Return the weights of the net."""
    return Problem((784, 256, 128, 10), 1).weights()


def logits(layers: Any, images: Any) -> Any:
    """Return the logits of a batch."""
    return with_numpy.forward(layers, np.asarray(images, np.float32))[1]


def free_port() -> int:
    """Return a port that no server has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def tell(port: int, path: str, output: TextIO) -> None:
    """Print the port when the server is ready, which it tells at that path, and end it when the input ends."""
    while not is_ready(f"http://127.0.0.1:{port}{path}"):
        time.sleep(0.1)
    print(port, file=output, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(PATIENCE)  # MLServer does not always end by itself
    os._exit(0)


def is_ready(url: str) -> bool:
    """Whether a server answers that it is ready."""
    with contextlib.suppress(OSError):
        urllib.request.urlopen(url, timeout=10).close()
        return True
    return False


def with_litserve(port: int) -> None:
    """Serve with LitServe."""
    litserve = importlib.import_module("litserve")
    net = importlib.import_module("benchmarks.serving_litserve").Net(max_batch_size=MOST, batch_timeout=DELAY)
    server = litserve.LitServer(net, accelerator="cpu", timeout=False)
    server.run("127.0.0.1", port, num_api_servers=1, log_level="warning", generate_client_file=False)


def with_bentoml(port: int) -> None:
    """Serve with BentoML, whose processes import the service by its name."""
    service = importlib.import_module("benchmarks.serving_bentoml").Net
    service.serve_http(host="127.0.0.1", port=port)


def with_mlserver(port: int) -> None:
    """Serve with MLServer, in this process."""
    mlserver = importlib.import_module("mlserver")
    settings = mlserver.Settings(
        host="127.0.0.1", http_port=port, grpc_port=free_port(), metrics_endpoint=None, parallel_workers=0,
        debug=False, load_models_at_startup=False,
    )  # fmt: skip
    model = mlserver.ModelSettings(
        name="mlp",
        implementation=importlib.import_module("benchmarks.serving_mlserver").Net,
        max_batch_size=MOST,
        max_batch_time=DELAY,
    )
    asyncio.run(mlserver.MLServer(settings).start([model]))


PEERS: Mapping[str, tuple[Callable[[int], None], str]] = {
    "litserve": (with_litserve, "/health"),
    "bentoml": (with_bentoml, "/readyz"),
    "mlserver": (with_mlserver, "/v2/health/ready"),
}
"""How each peer serves, and where it tells that it is ready."""


def main() -> None:
    """Serve until the input ends. What the server prints goes to the standard error."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    port, (serve, ready) = free_port(), PEERS[sys.argv[1]]
    threading.Thread(target=tell, args=[port, ready, output], daemon=True).start()
    serve(port)


if __name__ == "__main__":
    main()
