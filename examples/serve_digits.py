"""Read handwritten digits over HTTP while the net is still learning.

Training and serving share one event loop, one session and its variables.

    POST /predict   {"image": [...]} with 64 numbers, or 8 rows of 8, from 0 (white) to 16 (black)
                    -> {"digit": 7, "probabilities": [ten numbers]}
    GET  /status    -> {"state": "training", "step": 310, "loss": 0.12}
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import numpy as np
from aiohttp import web
from train_digits import BRIGHTEST, Progress, add_loop_option, build, load_digits, loop_factory, steps_of, train

import aioflow as af

MEND: Final = f'send {{"image": [...]}} with 64 numbers, or 8 rows of 8, from 0 (white) to {BRIGHTEST} (black)'
LARGEST_BODY: Final = 64 * 1024


class Reader:
    """A net that reads digits; the task `training` trains it."""

    def __init__(self, infer: Callable[..., Awaitable[Any]]) -> None:
        self.training: asyncio.Task[None] | None = None
        self._infer = infer
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
        """Return the progress of the training."""
        return {"state": _state(self.training), "step": self._step, "loss": self._loss}


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


def application(epochs: int) -> web.Application:
    """Create an application that trains for `epochs` epochs from its start on, and serves requests all the time."""

    async def learn(app: web.Application) -> AsyncIterator[None]:
        digits, _ = load_digits()
        model = build(steps_of(digits, epochs))
        async with af.Session(graph=model.graph) as session:
            await session.run(model.init)
            reader = app[READER] = Reader(session.make_callable(model.probabilities, feeds=[model.images]))
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


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="the port to listen on (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=5000, help="number of epochs (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    loop = loop_factory(options.loop)()
    web.run_app(application(options.epochs), host=options.host, port=options.port, loop=loop)
