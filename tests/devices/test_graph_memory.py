"""Memory of a CUDA graph: used again within the graph, and given back after its end, whatever is freed first."""

import gc
from types import SimpleNamespace

import pytest

from aioflow.devices.graph_memory import GraphMemory


class Pool:
    """CuPy's pool, which counts the bytes in use."""

    def __init__(self):
        self.used = 0
        self.calls = []

    def malloc(self, size):
        self.calls.append(size)
        return Pointer(self, size)


class Pointer:
    def __init__(self, pool, size):
        self.mem, self._pool = SimpleNamespace(size=size), pool
        self.ptr = len(pool.calls) << 20
        pool.used += size

    def __del__(self):
        self._pool.used -= self.mem.size


class Memory:
    """Memory of others: it keeps its owner."""

    def __init__(self, ptr, size, owner, index):
        self.ptr, self.size, self.owner = ptr, size, owner


CUDA = SimpleNamespace(UnownedMemory=Memory, MemoryPointer=lambda memory, offset: memory)


@pytest.fixture
def pool():
    made = Pool()
    yield made
    gc.collect()
    assert made.used == 0


@pytest.fixture
def memory(pool):
    made = GraphMemory(CUDA, pool.malloc, 0)
    yield made
    made.end()


def test_memory_that_is_freed_in_a_capture_is_used_again_by_arrays_of_about_its_size(memory, pool):
    first = memory.malloc(100)
    place = first.ptr
    del first
    assert memory.malloc(500).ptr == place
    assert pool.calls == [512]
    small, large = memory.malloc(512), memory.malloc(5000)
    assert pool.calls == [512, 5120]
    del large
    other = memory.malloc(600)  # of 1,024 bytes, and the free block has five times as many
    assert pool.calls == [512, 5120, 1024]
    assert len({small.ptr, other.ptr, memory.malloc(5120).ptr}) == 3


def test_nothing_is_given_back_before_the_end(memory, pool):
    one, other = memory.malloc(512), memory.malloc(1024)
    del one, other
    assert pool.used == 1536
    memory.end()
    assert pool.used == 0


def test_arrays_that_outlive_the_graph_keep_their_memory_alone(memory, pool):
    kept, dropped = memory.malloc(512), memory.malloc(1024)
    del dropped
    memory.end()
    assert pool.used == 512
    del kept
    assert pool.used == 0


def test_a_cycle_of_the_graph_and_its_arrays_gives_all_back(memory, pool):
    parts = [memory.malloc(size) for size in (512, 1024, 2048)]
    del parts[1]
    parts.append(SimpleNamespace(end=memory.end, of=parts))
    parts[-1].end()
    del parts
    gc.collect()
    assert pool.used == 0


def test_arrays_without_elements_take_nothing(memory, pool):
    empty = memory.malloc(0)
    assert pool.calls == [0]
    assert pool.used == 0
    assert empty is not None
