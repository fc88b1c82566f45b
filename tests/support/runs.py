"""Running what a test builds, in each way in which a graph with branches and loops can be run."""

import contextlib

import aioflow as af

CONFIGS = {"regions": af.Config(), "tokens": af.Config(executor="tokens"), "as built": af.Config(optimize=False)}


@contextlib.asynccontextmanager
async def runs(graph, config):
    """A function that runs fetches in one session over the graph, opened and its variables initialised when needed."""
    async with contextlib.AsyncExitStack() as stack:
        sessions = []

        async def run(fetches, feeds=None, options=None, metadata=None):
            if not sessions:
                with graph.as_default():
                    init = af.global_variables_initializer()
                sessions.append(await stack.enter_async_context(af.Session(graph=graph, config=config)))
                await sessions[0].run(init)
            return await sessions[0].run(fetches, feeds, options, metadata)

        yield run
