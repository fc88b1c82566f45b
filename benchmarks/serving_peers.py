"""LitServe with the same MLP in NumPy: `python -m benchmarks.serving_peers`.

It takes images as JSON alone, and gathers batches of as many images as aioflow, for as long. It has processes of its
own for HTTP and for the net. LitServe needs an environment of its own, whose interpreter is named by the variable
SERVING_PEERS of the environment; without it the benchmark shows that it is not installed.
"""

import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import litserve
import numpy as np

from benchmarks.mlp import Problem, with_numpy

MOST, DELAY = 64, 0.002


class Net(litserve.LitAPI):  # type: ignore[misc]
    """The MLP."""

    def setup(self, device: str) -> None:
        """Make the weights."""
        self.layers = Problem((784, 256, 128, 10), 1).weights()

    def decode_request(self, request: dict[str, Any]) -> Any:
        """Return the image of a request."""
        return np.asarray(request["image"], np.float32)

    def predict(self, images: Any) -> Any:
        """Return the logits of a batch."""
        return with_numpy.forward(self.layers, np.asarray(images))[1]

    def encode_response(self, logits: Any) -> dict[str, Any]:
        """Return the logits as JSON."""
        return {"logits": logits.tolist()}


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


def main() -> None:
    """Serve until the input ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = litserve.LitServer(Net(max_batch_size=MOST, batch_timeout=DELAY), accelerator="cpu", timeout=False)
    threading.Thread(target=tell, args=[port], daemon=True).start()
    server.run("127.0.0.1", port, num_api_servers=1, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
