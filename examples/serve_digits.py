"""Read handwritten digits over HTTP while the net is still learning. Requests at the same time share a run.

Training and serving share one event loop, one session and its variables.

    POST /predict   {"image": [...]} with 64 numbers, or 8 rows of 8, from 0 (white) to 16 (black)
                    -> {"digit": 7, "probabilities": [ten numbers]}
    GET  /status    -> {"state": "training", "step": 310, "loss": 0.12, "images": 7000, "runs": 150}

With `--load` it asks a server that runs, by 1, 2, 4, ... 256 clients at a time, and draws how long they wait.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import numpy as np
from aiohttp import web
from latency_curve import Point, write_picture
from train_digits import BRIGHTEST, Model, Progress, add_loop_option, build, load_digits, loop_factory, steps_of, train

import aioflow as af

MEND: Final = f'send {{"image": [...]}} with 64 numbers, or 8 rows of 8, from 0 (white) to {BRIGHTEST} (black)'
LARGEST_BODY: Final = 64 * 1024
CLIENTS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
URL: Final = "http://127.0.0.1:8080"


class Reader:
    """A net that reads digits; the task `training` trains it."""

    def __init__(self, session: af.Session, model: Model, max_rows: int) -> None:
        self.training: asyncio.Task[None] | None = None
        self._infer = session.batched(model.probabilities, feeds=[model.images], max_rows=max_rows)
        self._step = 0
        self._loss: float | None = None

    def report(self, progress: Progress) -> None:
        """Record a training step."""
        self._step, self._loss = progress.step, progress.loss

    async def read(self, image: Any) -> dict[str, Any]:
        """Read the digit in an image of 64 pixels with the present variables."""
        probabilities = (await self._infer(image[np.newaxis]))[0]
        return {"digit": int(probabilities.argmax()), "probabilities": probabilities.tolist()}

    def status(self) -> dict[str, Any]:
        """Return the progress of the training, and how many images were read in how many runs."""
        progress = {"state": _state(self.training), "step": self._step, "loss": self._loss}
        done = self._infer.statistics
        return {**progress, "images": done.rows, "runs": done.batches.total()}


def _state(training: asyncio.Task[None] | None) -> str:
    if training is None or not training.done():
        return "training"
    if training.cancelled():
        return "stopped"
    error = training.exception()
    return "trained" if error is None else f"failed: {error}"


READER: Final = web.AppKey("READER", Reader)
routes = web.RouteTableDef()


@routes.post("/predict")
async def predict(request: web.Request) -> web.Response:
    """Read one image."""
    try:
        image = parse_image(await request.read())
    except ValueError as error:
        return web.json_response({"error": f"{error}: {MEND}"}, status=400)
    return web.json_response(await request.app[READER].read(image))


@routes.get("/status")
async def status(request: web.Request) -> web.Response:
    """Report the progress of the training."""
    return web.json_response(request.app[READER].status())


def parse_image(body: bytes) -> Any:
    """Return the 64 pixels of a request, from 0 to 1. ValueError names the fault of the request."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(content, dict) or "image" not in content:
        raise ValueError('the body has no "image"')
    try:
        pixels = np.asarray(content["image"])
    except ValueError:
        raise ValueError("the rows of the image differ in length") from None
    if pixels.shape not in ((64,), (8, 8)):
        raise ValueError(f"the image has shape {list(pixels.shape)}")
    if pixels.dtype.kind not in "iuf":
        raise ValueError("the image holds something that is not a number")
    if not np.all((pixels >= 0) & (pixels <= BRIGHTEST)):
        raise ValueError(f"a pixel is not between 0 and {BRIGHTEST}")
    return pixels.reshape(64).astype(np.float32) / BRIGHTEST


def application(epochs: int, max_rows: int = 64) -> web.Application:
    """Create an application that trains for `epochs` epochs from its start on, and serves requests all the time."""

    async def learn(app: web.Application) -> AsyncIterator[None]:
        digits, _ = load_digits()
        model = build(steps_of(digits, epochs))
        async with af.Session(graph=model.graph) as session:
            await session.run(model.init)
            reader = app[READER] = Reader(session, model, max_rows)
            reader.training = asyncio.create_task(train(session, model, digits, epochs, reader.report))
            try:
                yield
            finally:
                await stop(reader.training)

    app = web.Application(client_max_size=LARGEST_BODY)
    app.add_routes(routes)
    app.cleanup_ctx.append(learn)
    return app


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait until it has ended. Raises its error if it had failed."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


# The load


async def measure_load(url: str, requests: int, picture: Path) -> None:
    """Print and draw the latencies of a server, for more and more clients at a time."""
    digits, _ = load_digits()
    bodies = [json.dumps({"image": pixels}).encode() for pixels in (digits.images * BRIGHTEST).tolist()]
    points = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        for clients in CLIENTS:
            await measure(client, f"{url}/predict", bodies, clients, requests=0)  # opens the connections
            points.append(point := await measure(client, f"{url}/predict", bodies, clients, requests))
            latencies = f"p50 {1e3 * point.p50:.2f} ms  p99 {1e3 * point.p99:.2f} ms"
            print(f"{clients:3} clients  {point.rate:6.0f} requests/s  {latencies}", flush=True)
    await write_picture(points, picture)
    print(f"the latencies are drawn in {picture}")


async def measure(
    client: aiohttp.ClientSession, url: str, bodies: Sequence[bytes], clients: int, requests: int
) -> Point:
    """Send so many requests, or one for each client if these are more. A client waits for each answer."""
    coming = itertools.islice(itertools.cycle(bodies), max(requests, clients))
    latencies: list[float] = []
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(ask(client, url, coming, latencies))
    p50, p99 = np.percentile(latencies, [50, 99])
    return Point(clients, len(latencies) / (time.perf_counter() - start), float(p50), float(p99))


async def ask(client: aiohttp.ClientSession, url: str, bodies: Iterator[bytes], latencies: list[float]) -> None:
    """Send one body after another, and add the seconds until each answer."""
    for body in bodies:
        start = time.perf_counter()
        async with client.post(url, data=body, headers={"content-type": "application/json"}) as response:
            response.raise_for_status()
            await response.read()
        latencies.append(time.perf_counter() - start)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="the port to listen on (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5000, help="number of epochs (default: %(default)s)")
    parser.add_argument("--max-rows", type=int, default=64, help="images in a run, at most (default: %(default)s)")
    parser.add_argument("--load", metavar="URL", nargs="?", const=URL, help="ask a server instead (default: %(const)s)")
    parser.add_argument("--requests", type=int, default=2000, help="for each number of clients (default: %(default)s)")
    parser.add_argument(
        "--picture", type=Path, default=Path("latencies.png"), help="the file of the curve (default: %(default)s)"
    )
    add_loop_option(parser)
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> None:
    """Serve, or ask a server."""
    factory = loop_factory(options.loop)
    if options.load is None:
        app = application(options.epochs, options.max_rows)
        web.run_app(app, host=options.host, port=options.port, loop=factory())
    else:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(measure_load(options.load, options.requests, options.picture))


if __name__ == "__main__":
    main(parse())
