"""Gates: exact interleavings of concurrent tasks, by two events instead of by sleeping.

    gate = Gate()
    task = asyncio.create_task(fetch(gate))
    await gate.arrived()
    ...
    gate.open()

Let `fetch` await `gate.wait()` in its middle: what stands for the dots happens while it is exactly there.
"""

import asyncio


class Gate:
    """Holds whoever waits at it until it is opened, and tells who has come so far.

    Attributes:
        entered: how many have come to the gate, those included that have passed it or were cancelled.
    """

    def __init__(self) -> None:
        self.entered: int = 0
        self._arrival = asyncio.Event()
        self._opened = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Gate {'open' if self._opened.is_set() else 'shut'}, {self.entered} entered>"

    async def wait(self) -> None:
        """Enter, and return once the gate is open: at once if it is already."""
        self.entered += 1
        self._arrival.set()
        await self._opened.wait()

    async def arrived(self, count: int = 1) -> None:
        """Return once `count` have entered: at once if they have already."""
        while self.entered < count:
            self._arrival.clear()
            await self._arrival.wait()

    def open(self) -> None:
        """Let pass all who wait, and for good all who come."""
        self._opened.set()
