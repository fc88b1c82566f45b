"""Launches kernels that depend on arrays only as one: a CUDA graph, which the GPU runs without Python.

The first run with arrays of some shapes is an ordinary one: it compiles kernels and fills workspaces. The next run
captures the kernels, and from then on each run is one launch. A graph repeats its kernels on the very addresses that it
was captured with, so everything below is about memory.

- **Memory inside a graph.** Memory allocated during a capture comes from a pool that belongs to the graph, so no other
  array ever gets it. Kernels inside a graph share it in the order of the capture, which every launch repeats.
- **Inputs.** A graph reads an input in place, if its address is that of the run before: so weights that do not change
  are never copied. The graph does not hold such an array. The caller holds it during the launch, and a graph is only
  launched for inputs at its addresses. When an input comes at another address, the kernels are captured anew, and from
  then on the input is copied into an array of the graph before each launch. So each input costs at most one more
  capture. Copies run on the stream of the kernels, and so in the right order.
- **Results.** A result is lent: the caller gets an array in the graph's memory, and the graph learns when the last
  reference to it is gone. By then no other stream reads it, since `Gpu.keep` holds what a stream uses; the same rule
  protects all memory that is freed and used again. If a result is still lent at the next launch, as one that a variable
  keeps, the graph gives its memory up to the holder, the kernels are captured anew, and from then on that result is
  copied into ordinary memory after each launch. So each result, too, costs at most one more capture.
- **Ends.** A graph that is replaced or dropped lives until its last launch has run.

Shapes, strides and dtypes of the inputs choose the graph, and so do the values of inputs in host memory, such as sizes.
A `GraphLauncher` keeps a few graphs; the least recently used goes first. If a capture fails, for example since a kernel
looks at a value or memory is short, the kernels are launched one by one for inputs of that shape. That is counted and
logged, and is no error.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aioflow.devices.driver import Graph
from aioflow.devices.gpu import Gpu
from aioflow.tensors.dtypes import Array

Kernels = Callable[..., Sequence[Array]]
"""A function of arrays on a GPU that enqueues kernels and returns their results."""
MOST: Final = 8
"""The shapes of inputs whose graphs a launcher keeps."""
LARGEST: Final = 256
"""The most bytes of an input in host memory that is part of a graph."""
_log: Final = logging.getLogger("aioflow.devices")


class GraphLauncher:
    """Runs the same kernels again and again, as one launch where it can. Used inside `with gpu:` only."""

    def __init__(self, gpu: Gpu, what: str) -> None:
        """Begin without a graph. `what` names the kernels in reports."""
        self._gpu: Final = gpu
        self._what: Final = what
        self._known: Final[OrderedDict[tuple[Any, ...], _Variant]] = OrderedDict()

    def launch(self, kernels: Kernels, inputs: Sequence[Array]) -> Sequence[Array] | None:
        """Return the results of one launch; None if the caller must launch the kernels one by one this time.

        `kernels` is called for a capture only, with other arrays of the same shapes.
        """
        key = tuple(map(self._key, inputs))
        if None in key:
            return None
        addresses = [self._gpu.driver.address(value) if self._gpu.holds(value) else 0 for value in inputs]
        variant = self._known.get(key)
        if variant is None:
            self._remember(key, _Variant(self._gpu, addresses))
            return None
        self._known.move_to_end(key)
        if variant.failed:
            return None
        try:
            graph = variant.graph_for(kernels, inputs, addresses)
        except Exception as error:
            self._give_up(variant, error)
            return None
        return graph.launch(inputs)

    def _key(self, value: Array) -> tuple[Any, ...] | None:
        """Return the part of the key that an input gives; None if no graph can have been captured with it."""
        if self._gpu.holds(value):
            return value.shape, value.strides, value.dtype
        return (value.shape, value.dtype, value.tobytes()) if value.nbytes <= LARGEST else None

    def _remember(self, key: tuple[Any, ...], variant: "_Variant") -> None:
        self._known[key] = variant
        if len(self._known) > MOST:
            _, oldest = self._known.popitem(last=False)
            oldest.drop()

    def _give_up(self, variant: "_Variant", error: Exception) -> None:
        variant.failed = True
        variant.drop()
        text = f"{self._what} on {self._gpu.name}: {error}"
        self._gpu.graphs.failures.append(text)
        _log.warning("not captured in a CUDA graph, and launched one by one for inputs of this shape: %s", text)


class _Variant:
    """The kernels for inputs of one shape.

    Attributes:
        failed: whether a capture has failed.

    The sets of copied inputs and results only grow, until each input has an address that stays, and each result is
    free in time.
    """

    def __init__(self, gpu: Gpu, addresses: Sequence[int]) -> None:
        self._gpu: Final = gpu
        self._addresses: Sequence[int] = addresses
        self._copied_in: Final[set[int]] = set()
        self._copied_out: Final[set[int]] = set()
        self._graph: _CapturedGraph | None = None
        self.failed = False

    def graph_for(self, kernels: Kernels, inputs: Sequence[Array], addresses: Sequence[int]) -> "_CapturedGraph":
        """Return a graph that can be launched for inputs at these addresses; captured now if there is none."""
        moved = {place for place, address in enumerate(addresses) if address != self._addresses[place]}
        moved -= self._copied_in
        graph = self._graph
        lent = set() if graph is None else graph.still_lent()
        if graph is not None and not moved and not lent:
            return graph
        self._copied_in.update(moved)
        self._copied_out.update(lent)
        self._addresses = addresses
        self.drop()
        graph = self._graph = _CapturedGraph(self._gpu, kernels, inputs, self._copied_in, self._copied_out)
        return graph

    def drop(self) -> None:
        """Let its graph go as soon as the last launch has run."""
        if self._graph is not None:
            self._gpu.keep(self._gpu.compute, self._graph)
            self._graph = None


class _CapturedGraph:
    """A graph with its arrays."""

    def __init__(
        self, gpu: Gpu, kernels: Kernels, inputs: Sequence[Array], copied_in: set[int], copied_out: set[int]
    ) -> None:
        self._gpu: Final = gpu
        self._own: Final = {place: _empty_like(gpu, inputs[place]) for place in sorted(copied_in)}
        self._copied_out: Final = frozenset(copied_out)
        self._lent: Final[set[int]] = set()
        given = [self._own.get(place, value) for place, value in enumerate(inputs)]

        def captured() -> Sequence[Array]:
            results = kernels(*given)
            return [each if each.flags.c_contiguous else gpu.xp.ascontiguousarray(each) for each in results]

        captured_graph: tuple[Graph, Sequence[Array]] = gpu.driver.capture(captured, gpu.compute)
        self._graph, self._results = captured_graph
        gpu.graphs.captures += 1

    def launch(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Run its kernels for these inputs. The results belong to the caller."""
        for place, own in self._own.items():
            _copy(self._gpu, inputs[place], own)
        self._graph.launch(self._gpu.compute)
        self._gpu.graphs.launches += 1
        return [self._hand_over(number, result) for number, result in enumerate(self._results)]

    def still_lent(self) -> set[int]:
        """Return the numbers of the results that are in use outside."""
        if self._lent:
            self._gpu.sweep()  # copies that are done have used some of them
        return self._lent

    def _hand_over(self, number: int, result: Array) -> Array:
        if not self._gpu.holds(result):
            return result.copy()
        if number in self._copied_out:
            copied = _empty_like(self._gpu, result)
            _copy(self._gpu, result, copied)
            return copied
        self._lent.add(number)
        return self._gpu.driver.lend(result, partial(self._lent.discard, number))


def _empty_like(gpu: Gpu, value: Array) -> Array:
    """Return a contiguous array in memory of the stream of the kernels."""
    return gpu.driver.landing_array(value.shape, value.dtype, gpu.compute, _nothing)


def _nothing() -> None:
    """The memory is used by one stream only, so its end orders nothing."""


def _copy(gpu: Gpu, source: Array, target: Array) -> None:
    if source.flags.c_contiguous:
        gpu.driver.device_to_device(source, target, gpu.compute)
    else:
        gpu.xp.copyto(target, source)
