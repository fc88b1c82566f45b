"""The form of a region for compute threads: a stop ends it between two kernels. It is compiled on its first use."""

import copy
import threading
from collections.abc import Callable
from typing import Any, Final

from aioflow.kernels.context import Context
from aioflow.program.error_location import Found, Place
from aioflow.program.handles import Objects
from aioflow.program.region import Region
from aioflow.tensors.dtypes import Array


class ThreadForm:
    """The form of a region for compute threads."""

    def __init__(self, compiling: Callable[[], Region], otherwise: Region) -> None:
        """`compiling` compiles it; `otherwise` is the form for the loop."""
        self._compiling: Final = compiling
        self._otherwise: Final = otherwise
        self._region: Region | None = None
        self._origin: tuple[ThreadForm, Objects] | None = None
        self._lock: Final = threading.RLock()

    def __call__(self, ctx: Context, *inputs: Array) -> Any:
        """A coroutine of the outputs."""
        return self.compiled().begin(ctx, *inputs)

    def compiled(self) -> Region:
        """The region, compiled now if this is its first use."""
        with self._lock:  # sessions of other loops share it
            if self._region is None:
                if self._origin is None:
                    self._region = self._compiling()
                else:
                    origin, objects = self._origin
                    self._region = origin.compiled().linked(objects)
            return self._region

    def linked(self, objects: Objects) -> "ThreadForm":
        """The same with the objects of a session. All sessions share the compiled code."""
        made = copy.copy(self)
        made._region, made._origin = None, (self, objects)
        return made

    def find(self, error: BaseException) -> Found | None:
        """Which node an error came from, in either form of the region."""
        found = self._otherwise.find(error)
        return self._region.find(error) if found is None and self._region is not None else found

    def computes(self, coroutine: Any) -> Place | None:
        """The node that a coroutine of either form of the region computes now."""
        found = self._otherwise.computes(coroutine)
        return self._region.computes(coroutine) if found is None and self._region is not None else found
