"""Servers of others with the same MLP in NumPy: `python -m benchmarks.serving_peers litserve`, `bentoml` or `mlserver`.

All of them take images as JSON alone, and gather batches of as many images as aioflow; LitServe and MLServer for as
long, BentoML for as long as it finds best. LitServe and BentoML have processes of their own for HTTP and for the net.
They need an environment of their own, with `benchmarks/serving_requirements.txt`, whose interpreter is named by the
variable SERVING_PEERS of the environment; without it the benchmark shows that they are not installed.
"""

import asyncio
import importlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.mlp import Problem, with_numpy

MOST, DELAY = 64, 0.002


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


def tell(port: int) -> None:
    """Print the port when the server listens, and end it when the input ends."""
    while True:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                break
        time.sleep(0.1)
    print(port, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


def with_litserve(port: int) -> None:
    """Serve with LitServe."""
    litserve = importlib.import_module("litserve")

    class Net(litserve.LitAPI):  # type: ignore[misc, name-defined]
        def setup(self, device: str) -> None:
            self.layers = weights()

        def decode_request(self, request: dict[str, Any]) -> Any:
            return np.asarray(request["image"], np.float32)

        def predict(self, images: Any) -> Any:
            return logits(self.layers, images)

        def encode_response(self, logits: Any) -> dict[str, Any]:
            return {"logits": logits.tolist()}

    server = litserve.LitServer(Net(max_batch_size=MOST, batch_timeout=DELAY), accelerator="cpu", timeout=False)
    server.run("127.0.0.1", port, num_api_servers=1, log_level="warning", generate_client_file=False)


def with_bentoml(port: int) -> None:
    """Serve with BentoML, whose processes import the service by its name."""
    serving = importlib.import_module("_bentoml_impl.server")
    serving.serve_http("benchmarks.serving_bentoml:Net", working_dir=os.getcwd(), host="127.0.0.1", port=port)


def with_mlserver(port: int) -> None:
    """Serve with MLServer, in this process."""
    mlserver = importlib.import_module("mlserver")
    from benchmarks.serving_mlserver import Net

    settings = mlserver.Settings(
        host="127.0.0.1", http_port=port, grpc_port=free_port(), metrics_endpoint=None, parallel_workers=0,
        debug=False, load_models_at_startup=False,
    )  # fmt: skip
    model = mlserver.ModelSettings(name="mlp", implementation=Net, max_batch_size=MOST, max_batch_time=DELAY)
    asyncio.run(mlserver.MLServer(settings).start([model]))


PEERS: Mapping[str, Callable[[int], None]] = {
    "litserve": with_litserve,
    "bentoml": with_bentoml,
    "mlserver": with_mlserver,
}


def main() -> None:
    """Serve until the input ends."""
    port = free_port()
    threading.Thread(target=tell, args=[port], daemon=True).start()
    PEERS[sys.argv[1]](port)


if __name__ == "__main__":
    main()
