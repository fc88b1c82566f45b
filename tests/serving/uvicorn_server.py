"""uvicorn in the event loop of a test."""

import asyncio
import contextlib

import uvicorn


@contextlib.asynccontextmanager
async def on_uvicorn(app):
    """The port on which uvicorn serves an application, until the end of the block."""
    config = uvicorn.Config(app, port=0, log_level="warning")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    serving = asyncio.ensure_future(server.main_loop())
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        await server.shutdown()
