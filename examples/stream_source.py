"""Read a stream of images that arrives over a websocket, no faster than the net can process it.

A camera sends images as fast as its socket accepts them. The server puts each image into a queue of the graph and waits
while the queue is full. Meanwhile it reads nothing from the socket, the system's buffers fill up, and the camera waits
too. So memory stays bounded on both sides, whichever side is faster. All of it runs in one event loop.

    ws://HOST:PORT/images   binary messages of 64 float32 each, from 0 (white) to 1 (black)
"""

import argparse
import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import aiohttp
import numpy as np
from aiohttp import web
from train_digits import Digits, Model, add_loop_option, build, load_digits, loop_factory, steps_of, train

import aioflow as af

PIXELS = 64
LARGEST_MESSAGE = 1024
CAPACITY = 256
BATCH = 32
EPOCHS = 10


class Report(NamedTuple):
    """The result of a stream.

    Attributes:
        scored: number of images that were read.
        accuracy: the share that was read correctly.
        seconds: the duration.
        most_waiting: the largest number of images in the queue.
        held_back: the share of the time that the camera waited to send.
    """

    scored: int
    accuracy: float
    seconds: float
    most_waiting: int
    held_back: float


async def receive(request: web.Request, live: Any) -> web.WebSocketResponse:
    """Put the images of a camera into the queue, and close the queue after the last one."""
    socket = web.WebSocketResponse(max_msg_size=LARGEST_MESSAGE, compress=False)
    await socket.prepare(request)
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or len(message.data) != 4 * PIXELS:
            await socket.close(code=aiohttp.WSCloseCode.UNSUPPORTED_DATA, message=b"send 64 float32 at a time")
            break
        await live.put(np.frombuffer(message.data, np.float32))
    await live.close()
    return socket


async def send(url: str, images: Any) -> float:
    """Send images one by one, like a camera. Returns the seconds spent waiting."""
    waited = 0.0
    async with aiohttp.ClientSession() as client, client.ws_connect(url, compress=0) as socket:
        for image in images:
            start = time.perf_counter()
            await socket.send_bytes(image.tobytes())
            waited += time.perf_counter() - start
    return waited


@contextlib.asynccontextmanager
async def listening(live: Any) -> AsyncIterator[str]:
    """Inside, the server listens on a port of the loopback address; yields its address."""
    app = web.Application()
    app.router.add_get("/images", functools.partial(receive, live=live))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"ws://{host}:{port}/images"
    finally:
        await runner.cleanup()


async def score(session: af.Session, model: Model, queue: af.FIFOQueue, labels: Any) -> tuple[int, int, int]:
    """Read the queue batch by batch. Returns the numbers of images, of correct ones, and the most that waited."""
    read = session.make_callable(model.probabilities, feeds=[model.images])
    live: Any = session.queue(queue)  # the queue is in this process, so its size is known
    scored, right, most = 0, 0, 0
    batches = session.stream(queue.dequeue_up_to(BATCH))
    async with contextlib.aclosing(batches):
        async for batch in batches:
            most = max(most, live.size)
            digits = (await read(batch)).argmax(1)
            right += int((digits == labels[scored : scored + len(batch)]).sum())
            scored += len(batch)
    return scored, right, most


async def stream(count: int, epochs: int = EPOCHS) -> Report:
    """Train the net, then let a camera send `count` held-out images, in a cycle."""
    seen, unseen = load_digits()
    model = build(steps_of(seen, epochs))
    with model.graph.as_default():
        queue = af.FIFOQueue(CAPACITY, [af.float32], shapes=[[PIXELS]], name="incoming")
    async with af.Session(graph=model.graph) as session:
        await session.run(model.init)
        await train(session, model, seen, epochs, lambda progress: None)
        sent = repeated(unseen, count)
        start = time.perf_counter()
        async with listening(session.queue(queue)) as url, asyncio.TaskGroup() as group:
            camera = group.create_task(send(url, sent.images))
            scored, right, most = await score(session, model, queue, sent.labels)
        seconds = time.perf_counter() - start
    return Report(scored, right / scored, seconds, most, camera.result() / seconds)


def repeated(digits: Digits, count: int) -> Digits:
    """Yield `count` images, again and again from the beginning."""
    chosen = np.arange(count) % len(digits.labels)
    return Digits(digits.images[chosen], digits.labels[chosen])


async def main(options: argparse.Namespace) -> None:
    """Stream, and print the result."""
    report = await stream(options.images)
    speed = report.scored / report.seconds
    print(f"{report.scored} images read, {report.accuracy:.1%} of them right, {speed:.0f} a second")
    print(f"at most {report.most_waiting} waited; the camera was held back {report.held_back:.0%} of the time")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000, help="number of images (default: %(default)s)")
    add_loop_option(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(main(options))
