"""Builds and runs primitives of oneDNN on arrays.

A `Routine` is a sequence of primitives on arrays of fixed shapes: a computation, and the reorders to and from its
preferred layouts. Intermediate values are in scratch memory of the calling thread; each thread has one piece for all
routines. A whole network may be one routine.
"""

import ctypes
import typing
import weakref
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from aioflow import errors
from aioflow.devices.onednn import Library, check
from aioflow.devices.onednn_scratch import SCRATCH, ScratchPlan
from aioflow.tensors.dtypes import Array

MOST_AXES: Final = 12
_FLOAT32: Final = 3
_NUMPY_FLOAT32: Final = np.dtype(np.float32)
_ANY: Final = 1
_BLOCKED: Final = {16: 78, 8: 102}
"""oneDNN's numbers of the layouts nChw16c and nChw8c."""
_IN_ORDER: Final = 1
_USER_SCRATCHPAD: Final = 1
_SCRATCHPAD_MD: Final = 136
_FROM, _TO, _SCRATCHPAD = 1, 17, 80
_IMPLEMENTATION: Final = 8
_UNIMPLEMENTED: Final = 3
_SCALES: Final = 4096
_AFTER: Final = 32768
_BINARY_ADD, _LINEAR = 0x1FFF0, 0x26
_Byte: Final = ctypes.c_char
Dims: Final = ctypes.c_int64 * MOST_AXES
Handle = ctypes.c_void_p


def dims(sizes: Sequence[int]) -> Any:
    """Return sizes in oneDNN's form."""
    return Dims(*sizes)


class Layout(NamedTuple):
    """The layout of a float32 array for oneDNN: the sizes of its axes and the strides along them, in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def dense(cls, shape: Sequence[int]) -> "Layout":
        """Return the layout of a contiguous array."""
        steps = [1]
        for size in reversed(shape[1:]):
            steps.append(steps[-1] * size)
        return cls(tuple(shape), tuple(reversed(steps)))

    def channels_second(self) -> "Layout":
        """Return the layout with the last axis as the second, as oneDNN orders the axes of images."""
        sizes, steps = self
        return Layout((sizes[0], sizes[-1], *sizes[1:-1]), (steps[0], steps[-1], *steps[1:-1]))

    def offset(self, channel: int) -> int:
        """Return the bytes before a channel of the first element."""
        return 4 * channel * self.strides[1]


class Blocked(NamedTuple):
    """The layout of float32 images for which the library's convolutions are fastest: channels in blocks of a vector.

    Whole blocks of an image lie one after the other, so some of them are themselves such an image.
    """

    sizes: tuple[int, ...]
    vector: int

    @classmethod
    def of(cls, images: Layout, vector: int) -> "Blocked":
        """Return the layout of images of those sizes."""
        return cls(images.sizes, vector)

    def part(self, channels: int) -> "Blocked":
        """Return the layout of images with that many channels."""
        return self._replace(sizes=(self.sizes[0], channels, *self.sizes[2:]))

    def offset(self, channel: int) -> int:
        """Return the bytes of one image before the block that begins with a channel."""
        return 4 * channel * self.sizes[2] * self.sizes[3]


class _Argument(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("memory", ctypes.c_void_p))


class Stop(Protocol):
    """Says whether a computation must stop."""

    asked: bool

    def check(self) -> None:
        """Raise an error if the computation must stop."""


class MemoryRef(NamedTuple):
    """A value of a routine: the number of its memory, and the descriptor of its layout."""

    number: int
    descriptor: Handle


class _Step(NamedTuple):
    primitive: Handle
    arguments: tuple[tuple[int, int], ...]  # (oneDNN's number of the argument, number of the memory)


class _Memory(NamedTuple):
    descriptor: Handle
    array: int | None  # the index of the caller's array; None for scratch memory
    offset: int = 0  # in its block of the scratch memory; once the routine is finished, in all of it
    block: int = 0  # of the scratch memory


class AfterStep(NamedTuple):
    """A step that a primitive performs on its result before it writes it: a post-op, as oneDNN calls it."""

    function: str
    values: tuple[float, ...] = ()
    layout: Layout | Blocked | None = None

    @classmethod
    def add(cls, layout: Layout | Blocked) -> "AfterStep":
        """Add an array of that layout, whose argument is `argument(place, 2)`."""
        return cls("dnnl_post_ops_append_binary", (_BINARY_ADD,), layout)

    @classmethod
    def sum(cls) -> "AfterStep":
        """Add what the result's memory held before."""
        return cls("dnnl_post_ops_append_sum", (1.0, 0, _FLOAT32))

    @classmethod
    def rectify(cls) -> "AfterStep":
        """Multiply what is below 0 with a number, whose argument is `argument(place, 33)`. NaN stays NaN."""
        return cls("dnnl_post_ops_append_prelu", (0,))

    @classmethod
    def plus_zero(cls) -> "AfterStep":
        """Add 0: -0 becomes +0."""
        return cls("dnnl_post_ops_append_eltwise", (_LINEAR, 1.0, 0.0))

    @classmethod
    def apply(cls, function: int) -> "AfterStep":
        """Apply a function, given oneDNN's number of it, which has no parameters."""
        return cls("dnnl_post_ops_append_eltwise", (function, 0.0, 0.0))

    @staticmethod
    def argument(place: int, number: int) -> int:
        """Return oneDNN's number for an argument of the step at that place."""
        return _AFTER * (place + 1) | number

    def append(self, build: "Builder", steps: Handle) -> None:
        """Add it to oneDNN's list of steps."""
        layout = () if self.layout is None else (build.layout(self.layout),)
        values = [ctypes.c_float(value) if isinstance(value, float) else value for value in self.values]
        build.library.call(self.function, steps, *values, *layout)


class Builder:
    """Builds one routine: `with Builder(library) as build`. Arrays are numbered in the order of the routine's call."""

    def __init__(self, library: Library) -> None:
        self.library: Final = library
        self._memories: list[_Memory] = []
        self._steps: list[_Step] = []
        self._arrays = 0
        self._scratch = ScratchPlan()
        self._owned: list[tuple[str, Handle]] = []

    def __enter__(self) -> "Builder":
        return self

    def __exit__(self, *exc: object) -> None:
        _destroy(self.library, self._owned)

    def _own(self, kind: str, handle: Handle) -> Handle:
        self._owned.append((f"dnnl_{kind}_destroy", handle))
        return handle

    # Descriptors

    def layout(self, layout: "Layout | Blocked") -> Handle:
        """Return the descriptor of arrays of that layout."""
        if isinstance(layout, Blocked):
            return self._tagged(layout.sizes, _BLOCKED[layout.vector])
        sizes, strides = dims(layout.sizes), dims(layout.strides)
        create = "dnnl_memory_desc_create_with_strides"
        made = self.library.create(create, len(layout.sizes), sizes, _FLOAT32, strides)
        return self._own("memory_desc", made)

    def any_layout(self, sizes: Sequence[int]) -> Handle:
        """Return the descriptor of arrays of those sizes in the layout that the primitive prefers."""
        return self._tagged(sizes, _ANY)

    def _tagged(self, sizes: Sequence[int], tag: int) -> Handle:
        create = "dnnl_memory_desc_create_with_tag"
        return self._own("memory_desc", self.library.create(create, len(sizes), dims(sizes), _FLOAT32, tag))

    def primitive(
        self, function: str, *arguments: Any, after: "Sequence[AfterStep]" = (), multiplied: int | None = None
    ) -> Handle:
        """Return the descriptor of a primitive, given its create function. The steps `after` follow in it.

        The argument `multiplied`, by oneDNN's number, is multiplied by one more argument, `factor_of` it.
        UnimplementedError if no optimised one exists.
        """
        attributes = self._own("primitive_attr", self.library.create("dnnl_primitive_attr_create"))
        self.library.call("dnnl_primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        if after:
            steps = self._own("post_ops", self.library.create("dnnl_post_ops_create"))
            for step in after:
                step.append(self, steps)
            self.library.call("dnnl_primitive_attr_set_post_ops", attributes, steps)
        if multiplied is not None:
            self.library.call("dnnl_primitive_attr_set_scales_mask", attributes, multiplied, 0)
        made = self._own("primitive_desc", self.library.create(function, self.library.engine, *arguments, attributes))
        if self.implementation(made).startswith("ref"):
            check(function, _UNIMPLEMENTED)
        return made

    @staticmethod
    def factor_of(argument: int) -> int:
        """Return oneDNN's number for the factor of an argument: an array of one element."""
        return _SCALES | argument

    def implementation(self, primitive: Handle) -> str:
        """Return the library's name of the code that runs a primitive."""
        name = ctypes.c_char_p()
        self.library.call("dnnl_primitive_desc_query", primitive, _IMPLEMENTATION, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def refuse(self, what: str) -> typing.NoReturn:
        """Raise UnimplementedError: NumPy computes what the routine would."""
        raise errors.UnimplementedError(f"oneDNN is slow at {what}")

    def preferred_layout(self, primitive: Handle, query: int, index: int = 0) -> Handle:
        """Return the layout that a primitive prefers for one of its arguments, given oneDNN's number of the query."""
        return self.library.query("dnnl_primitive_desc_query_md", primitive, query, index)

    # Memory

    def array(self, descriptor: Handle) -> MemoryRef:
        """Return the next array of the call."""
        self._arrays += 1
        self._memories.append(_Memory(descriptor, self._arrays - 1))
        return MemoryRef(len(self._memories) - 1, descriptor)

    def view(self, place: MemoryRef, descriptor: Handle) -> MemoryRef:
        """Return the same memory in another view, whose layout is `descriptor`."""
        self._memories.append(self._memories[place.number]._replace(descriptor=descriptor))
        return MemoryRef(len(self._memories) - 1, descriptor)

    def scratch(self, descriptor: Handle) -> MemoryRef:
        """Return scratch memory."""
        self._memories.append(_Memory(descriptor, None, 0, self._scratch.add(self.library.size(descriptor))))
        return MemoryRef(len(self._memories) - 1, descriptor)

    def part(self, place: MemoryRef, descriptor: Handle, offset: int) -> MemoryRef:
        """Return scratch memory within other scratch memory, `offset` bytes after its begin."""
        whole = self._memories[place.number]
        self._memories.append(_Memory(descriptor, None, whole.offset + offset, whole.block))
        return MemoryRef(len(self._memories) - 1, descriptor)

    def piece(self, place: MemoryRef, sizes: Sequence[int], begin: Sequence[int]) -> MemoryRef:
        """Return the elements of those sizes from `begin` on, of the same memory."""
        create = "dnnl_memory_desc_create_submemory"
        made = self._own("memory_desc", self.library.create(create, place.descriptor, dims(sizes), dims(begin)))
        return self.view(place, made)

    # Steps

    def run(self, primitive: Handle, arguments: dict[int, MemoryRef]) -> None:
        """Add the primitive as the next step. The keys of `arguments` are oneDNN's numbers."""
        scratch = self.preferred_layout(primitive, _SCRATCHPAD_MD)
        if self.library.size(scratch):
            arguments = {**arguments, _SCRATCHPAD: self.scratch(scratch)}
        made = self._own("primitive", self.library.create("dnnl_primitive_create", primitive))
        numbers = tuple((index, place.number) for index, place in arguments.items())
        for _, number in numbers:
            if self._memories[number].array is None:
                self._scratch.use(self._memories[number].block, len(self._steps))
        self._steps.append(_Step(made, numbers))

    def in_layout(self, place: MemoryRef, descriptor: Handle) -> MemoryRef:
        """Return the value in another layout, by a reorder if necessary."""
        if self.library.equal(place.descriptor, descriptor):
            return place
        target = self.scratch(descriptor)
        self.reorder(place, target)
        return target

    def reorder(self, source: MemoryRef, target: MemoryRef) -> None:
        """Add a step that copies one memory to another of a different layout."""
        engine = self.library.engine
        create = "dnnl_reorder_primitive_desc_create"
        attributes = self._own("primitive_attr", self.library.create("dnnl_primitive_attr_create"))
        self.library.call("dnnl_primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        made = self.library.create(create, source.descriptor, engine, target.descriptor, engine, attributes)
        self.run(self._own("primitive_desc", made), {_FROM: source, _TO: target})

    def result_place(self, wanted: Handle, array: MemoryRef) -> MemoryRef:
        """Return the target of a primitive that prefers the layout `wanted`: the array itself, or scratch memory.

        `copy_result` then copies the scratch memory to the array.
        """
        return array if self.library.equal(wanted, array.descriptor) else self.scratch(wanted)

    def copy_result(self, place: MemoryRef, array: MemoryRef) -> None:
        """Copy the result to the array if it is in scratch memory."""
        if place is not array:
            self.reorder(place, array)

    def finish(self) -> "Routine":
        """Return the routine, which owns the created objects."""
        owned, self._owned = self._owned, []
        offsets, size = self._scratch.place()
        memories = [
            memory._replace(offset=offsets[memory.block] + memory.offset) if memory.array is None else memory
            for memory in self._memories
        ]
        return Routine(_Program(self.library, memories, self._steps, size, owned))


class _Program:
    """What a builder has made: the memories, and the steps in order. Owns the library's objects."""

    def __init__(
        self,
        library: Library,
        memories: Sequence[_Memory],
        steps: Sequence[_Step],
        size: int,
        owned: list[tuple[str, Handle]],
    ) -> None:
        self.library: Final = library
        self.memories: Final = tuple(memories)
        self.steps: Final = tuple(steps)
        self.size: Final = size
        weakref.finalize(self, _destroy, library, owned).atexit = False


class Routine:
    """A sequence of primitives, called with the arrays in order. Safe to use from any thread.

    The arrays must have the layouts that the routine was built for. This is not checked.
    """

    def __init__(self, program: _Program, held: Sequence[Array] = ()) -> None:
        self._program: Final = program
        self._held: Final = held
        self._idle: list[_Call] = []

    def holding(self, *arrays: Array) -> "Routine":
        """Return the routine with its last arrays, which it holds. Calls give the others.

        TypeError if one is not float32.
        """
        _check_float32(arrays)
        return Routine(self._program, arrays)

    def elements(self, array: int) -> int:
        """Return the number of elements in the memory of an array, given its number in the order of a call."""
        memory = next(memory for memory in self._program.memories if memory.array == array)
        return self._program.library.size(memory.descriptor) // 4

    def is_like(self, other: "Routine") -> bool:
        """Whether the memories of the other routine have the same layouts, one by one."""
        mine, its = self._program.memories, other._program.memories
        equal = self._program.library.equal
        return len(mine) == len(its) and all(equal(a.descriptor, b.descriptor) for a, b in zip(mine, its, strict=True))

    def __call__(self, *arrays: Array, stop: Stop | None = None) -> None:
        """Run the routine, which writes its results into the arrays. `stop` may end it between two primitives.

        TypeError, before it runs, if one is not float32.
        """
        for array in arrays:
            if array.dtype is not _NUMPY_FLOAT32:
                _check_float32(arrays)
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call(self._program, self._held)
        call.run(arrays, stop)
        self._idle.append(call)


def _check_float32(arrays: Sequence[Array]) -> None:
    for array in arrays:
        if array.dtype != _NUMPY_FLOAT32:
            raise TypeError(f"oneDNN was given {array.dtype} for float32")


def address(array: Array) -> int:
    """Return the address of an array's first element, in a third of the time that `array.ctypes` takes if possible."""
    if array.flags.carray:
        return ctypes.addressof(_Byte.from_buffer(array))
    return int(array.ctypes.data)  # it is read-only, or not contiguous


def pointer(array: Array) -> Any:
    """Return the same as an argument that needs no conversion. ValueError if the array has gaps."""
    flags = array.flags
    if flags.carray:
        return ctypes.byref(_Byte.from_buffer(array))
    if not flags.c_contiguous:
        raise ValueError("the array has gaps")
    return ctypes.c_void_p(array.ctypes.data)


class _Call:
    """The library's objects for one execution; concurrent executions have different ones.

    The last arrays of the routine are `held`: their addresses are set once.
    """

    def __init__(self, program: _Program, held: Sequence[Array]) -> None:
        library = self._library = program.library
        owned: list[tuple[str, Handle]] = []
        weakref.finalize(self, _destroy, library, owned).atexit = False
        self._memories: list[Handle] = []
        for memory in program.memories:
            made = library.create("dnnl_memory_create", memory.descriptor, library.engine, None)
            owned.append(("dnnl_memory_destroy", made))
            self._memories.append(made)
        self._stream = library.create("dnnl_stream_create", library.engine, _IN_ORDER)
        owned.append(("dnnl_stream_destroy", self._stream))
        pairs = list(zip(self._memories, program.memories, strict=True))
        arrays = [(handle, memory.array) for handle, memory in pairs if memory.array is not None]
        self._between = [(handle, memory.offset) for handle, memory in pairs if memory.array is None]
        self._steps = [(step.primitive, len(step.arguments), self._arguments(step)) for step in program.steps]
        given = 1 + max(number for _, number in arrays) - len(held)
        self._arrays = [(handle, number) for handle, number in arrays if number < given]
        for handle, number in arrays:
            if number >= given:
                library.point(handle, held[number - given].ctypes.data)
        self._size = program.size
        self._base = 0

    def _arguments(self, step: _Step) -> Any:
        made = [_Argument(index, self._memories[number]) for index, number in step.arguments]
        return (_Argument * len(made))(*made)

    def run(self, arrays: Sequence[Array], stop: Stop | None) -> None:
        """Run all steps. A step is finished when the library returns."""
        point, execute, stream = self._library.point, self._library.execute, self._stream
        for handle, number in self._arrays:
            point(handle, address(arrays[number]))
        scratch = self._take_scratch() if self._size else None
        for primitive, count, arguments in self._steps:
            if stop is not None and stop.asked:
                stop.check()
            status = execute(primitive, stream, count, arguments)
            if status:
                check("dnnl_primitive_execute", status)
        del scratch

    def _take_scratch(self) -> Array:
        """Let the values between the steps lie in the scratch memory of this thread, and return that."""
        scratch, base = SCRATCH.lines(self._size)
        if base != self._base:
            self._base = base
            for handle, offset in self._between:
                self._library.point(handle, base + offset)
        return scratch


def _destroy(library: Library, owned: list[tuple[str, Handle]]) -> None:
    for function, handle in reversed(owned):
        library.call(function, handle)
