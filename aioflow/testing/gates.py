"""Gates: exact interleavings of concurrent tasks by events, without sleeps.

    gate = Gate()
    task = asyncio.create_task(fetch(gate))
    await gate.arrived()
    ...
    gate.open()

If `fetch` awaits `gate.wait()` in its middle, the code at the dots runs while `fetch` is exactly there.
"""

import asyncio


class Gate:
    """Holds tasks until it is opened, and counts the tasks that have entered.

    Attributes:
        entered: number of tasks that have entered, including those that have passed it or were cancelled.

    Examples:
        >>> from aioflow.testing import Gate, faulty_kernel
        >>> gate, queue = Gate(), af.FIFOQueue(4, [af.int32], shapes=[[]])
        >>> size = queue.size()
        >>> await session.run(queue.enqueue([7]))
        >>> with faulty_kernel("queue_dequeue", gate=gate):
        ...     run = asyncio.ensure_future(session.run(queue.dequeue()))
        ...     await gate.arrived()
        ...     print(await session.run(size))
        ...     gate.open()
        ...     print(await run)
        1
        7
    """

    def __init__(self) -> None:
        self.entered: int = 0
        self._arrival = asyncio.Event()
        self._opened = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Gate {'open' if self._opened.is_set() else 'shut'}, {self.entered} entered>"

    async def wait(self) -> None:
        """Enter, and wait until the gate is open. Returns at once if it is."""
        self.entered += 1
        self._arrival.set()
        await self._opened.wait()

    async def arrived(self, count: int = 1) -> None:
        """Wait until `count` tasks have entered."""
        while self.entered < count:
            self._arrival.clear()
            await self._arrival.wait()

    def open(self) -> None:
        """Let all tasks pass that wait now or enter later."""
        self._opened.set()
