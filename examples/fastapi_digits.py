"""Serve a saved net that reads digits in a FastAPI application.

The net is trained and saved if the directory has none. The application has a route of its own, which takes part in
its documentation at /docs, and the protocols that clients of models speak below /models:

    POST /predict   {"image": [...]} with 64 numbers from 0 (white) to 1 (black) -> {"digit": 7, "probability": 0.99}
    POST /models/v2/models/digits/infer        the Open Inference Protocol
    POST /models/v1/models/digits:predict      the REST interface of TensorFlow Serving

Requests at the same time share runs, whichever way they come. It needs `pip install fastapi uvicorn`.
"""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException
from train_digits import ProgressBar, build, load_digits, steps_of, train

import aioflow as af


@dataclass
class Image:
    """The body of a request: 64 pixels from 0 (white) to 1 (black)."""

    image: list[float]


@dataclass
class Digit:
    """The digit in an image, and how sure the net is."""

    digit: int
    probability: float


async def save_net(directory: Path, epochs: int) -> None:
    """Train a net, and save it as version 1 of the model in the directory."""
    digits, _ = load_digits()
    model = build(steps_of(digits, epochs))
    signature = af.saved_model.Signature(inputs={"image": model.images}, outputs={"probabilities": model.probabilities})
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, digits, epochs, ProgressBar())
        await af.saved_model.save(session, directory, {"serving_default": signature}, version=1)


def application(directory: Path) -> FastAPI:
    """Create an application that serves the model in the directory."""
    models = af.serving.Models()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with models:
            await models.add("digits", directory)
            yield

    async def predict(body: Image) -> Digit:
        """Read one image."""
        try:
            outputs = await models.find("digits").infer({"image": [body.image]})
        except af.errors.OpError as error:
            raise HTTPException(*af.serving.http_error(error)) from None
        probabilities = outputs["probabilities"][0]
        return Digit(int(probabilities.argmax()), float(probabilities.max()))

    app = FastAPI(title="Digits", lifespan=lifespan)
    app.add_api_route("/predict", predict, methods=["POST"])
    app.mount("/models", af.serving.asgi_app(models))
    return app


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path("digits-model"), help="default: %(default)s")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="the port to listen on (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=50, help="of a net to train (default: %(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    if not options.directory.exists():
        asyncio.run(save_net(options.directory, options.epochs))
    uvicorn.run(application(options.directory), host=options.host, port=options.port)
