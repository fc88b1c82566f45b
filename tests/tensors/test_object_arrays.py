"""No call into C handles many Python objects at a time: it would hold the GIL and block the event loop."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow.tensors import object_arrays
from aioflow.tensors.as_array import as_array
from aioflow.tensors.tensor_list import TensorList
from benchmarks import gil
from tests.support.evaluate import evaluate
from tests.support.scale import amount

SLICE, DIRECT, COUNT = 64, 128, 2000


@pytest.fixture
def small(monkeypatch):
    """Slices so small that a few thousand strings need several."""
    monkeypatch.setattr(object_arrays, "SLICE_ELEMENTS", SLICE)
    monkeypatch.setattr(object_arrays, "_DIRECT", DIRECT)


VIEWS = (
    np.array_split,
    np.swapaxes,
    np.broadcast_to,
    np.expand_dims,
    np.moveaxis,
    np.ndim,
    np.reshape,
    np.shape,
    np.size,
    np.split,
)


class Recorded(np.ndarray):
    """An array that records the number of objects of each call into C."""

    most = 0

    def _note(self, *values):
        for value in values:
            if isinstance(value, np.ndarray) and value.dtype == object:
                Recorded.most = max(Recorded.most, value.size)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        self._note(*(inputs[1:] if method == "at" else inputs))  # `at` touches the elements at its indices alone
        return getattr(ufunc, method)(*map(bare, inputs), **{key: bare(value) for key, value in kwargs.items()})

    def __array_function__(self, function, types, args, kwargs):
        if function not in VIEWS:
            self._note(*(item for arg in args for item in (arg if isinstance(arg, (list, tuple)) else [arg])))
        return super().__array_function__(function, types, args, kwargs)

    def __getitem__(self, place):
        found = super().__getitem__(place)
        if isinstance(found, np.ndarray) and not np.shares_memory(bare(found), bare(self)):
            self._note(found)
        return found


def bare(value):
    return value.view(np.ndarray) if isinstance(value, Recorded) else value


def whole(name):
    def call(self, *args, **kwargs):
        self._note(self)
        return getattr(bare(self), name)(*args, **kwargs)

    return call


for _name in ("tolist", "take", "argsort", "sort", "copy", "astype", "repeat", "tobytes", "compress", "searchsorted"):
    setattr(Recorded, _name, whole(_name))

CASES = [name for name in gil.cases(af, 100) if not name.startswith(("feeding", "a variable", "a queue"))]


def built(name):
    case = gil.cases(af, COUNT)[name]
    fed = [af.placeholder(af.as_dtype(value.dtype), [None] * value.ndim) for value in case.feeds]
    made = case.build(*fed)
    several = made if isinstance(made, (list, tuple)) else [made]
    return fed, case.feeds, [part for each in several for part in parts(each)]


def parts(value):
    if isinstance(value, af.SparseTensor):
        return [value.indices, value.values, value.dense_shape]
    return [value]


def plain(values):
    return [np.asarray(value.elements() if isinstance(value, TensorList) else value).tolist() for value in values]


@pytest.mark.parametrize("name", CASES)
def test_ops_on_many_strings_work_in_slices_with_the_same_results(name, monkeypatch):
    with af.Graph().as_default():
        fed, values, made = built(name)
        expected = plain(evaluate(made, dict(zip(fed, values, strict=True))))
        monkeypatch.setattr(object_arrays, "SLICE_ELEMENTS", SLICE)
        monkeypatch.setattr(object_arrays, "_DIRECT", DIRECT)
        monkeypatch.setattr(Recorded, "most", 0)
        recorded = [value.view(Recorded) if value.dtype == object and value.ndim else value for value in values]
        assert plain(evaluate(made, dict(zip(fed, recorded, strict=True)))) == expected
        assert Recorded.most <= DIRECT


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, 3 * SLICE + 5])
def test_helpers_give_the_results_of_numpy_and_python(small, count):
    draw = np.random.default_rng(count)
    items = [b"%d" % number for number in draw.integers(0, max(1, count // 2), count)]
    array = object_arrays.make_array(items)
    assert array.tolist() == object_arrays.to_list(array) == object_arrays.copy_array(array).tolist() == items
    assert object_arrays.sort_items(items) == sorted(items)
    assert object_arrays.distinct_elements(array) == set(items)
    assert object_arrays.join_strings(b", ", items) == b", ".join(items)
    assert object_arrays.map_elements(len, np.int32, array).tolist() == [len(item) for item in items]
    places, which = object_arrays.first_places(array)
    assert array[places].tolist() == list(dict.fromkeys(items))
    assert array[places][which].tolist() == items
    assert object_arrays.concatenate_arrays([array, array]).tolist() == items * 2
    order = draw.permutation(count)
    assert object_arrays.take_elements(array, order).tolist() == array[order].tolist()


def test_strided_and_broadcast_arrays_are_sliced_by_their_elements(small):
    matrix = object_arrays.make_array([b"%d" % number for number in range(600)], (20, 30))
    assert object_arrays.ravel_array(matrix.T).tolist() == matrix.T.ravel().tolist()
    assert object_arrays.copy_array(matrix[::2, ::3]).tolist() == matrix[::2, ::3].tolist()
    joined = object_arrays.map_elements(lambda a, b: a + b, object, matrix, matrix[0])
    assert joined.tolist() == (matrix + matrix[0]).tolist()


NESTS = {
    "bytes": [b"a", b"b"] * 5000,
    "text": ["a", "\u00e9"] * 5000,
    "mixed text": ["a", b"b"] * 5000,
    "a matrix of text": [["a", "b"]] * 5000,
    "long rows": [["a"] * 5000] * 2,
    "floats": [0.5, 1.5] * 5000,
    "integers": [1, 2] * 5000,
    "integers, one of 64 bits": [1] * 9999 + [1 << 40],
    "an integer among floats": [0.5] * 9999 + [1],
    "a bool among integers": [1] * 9999 + [True],
    "a matrix of floats": [[0.5, 1.5]] * 5000,
    "arrays": [np.float32([1.0, 2.0])] * 5000,
    "NumPy's numbers": [np.int16(1)] * 10000,
}


@pytest.mark.parametrize("name", NESTS)
def test_long_nests_become_the_same_arrays_as_short_ones(name, monkeypatch):
    long = as_array(NESTS[name])
    monkeypatch.setattr("aioflow.tensors.as_array.SLICE_ELEMENTS", 1 << 30)
    whole = as_array(NESTS[name])
    assert long.dtype == whole.dtype
    assert long.shape == whole.shape
    assert long.tolist() == whole.tolist()


STRAYS = [[b"a"] * 9999 + [1], [["a"]] * 5000 + [["a", "b"]] + [["a"]] * 5000, [1.0] * 9999 + [[1]]]


@pytest.mark.parametrize("stray", STRAYS)
def test_long_nests_are_refused_as_short_ones_are(stray, monkeypatch):
    with pytest.raises((TypeError, ValueError)) as long:
        as_array(stray)
    monkeypatch.setattr("aioflow.tensors.as_array.SLICE_ELEMENTS", 1 << 30)
    with pytest.raises((TypeError, ValueError)) as whole:
        as_array(stray)
    assert str(long.value) == str(whole.value)
    assert long.type is whole.type


def test_the_memory_of_strings_is_freed_in_slices(small, monkeypatch):
    parts = []
    taking = object_arrays.slices
    monkeypatch.setattr(object_arrays, "slices", lambda *given: (parts.append(part) or part for part in taking(*given)))
    array = object_arrays.full_array(COUNT, b"one")
    parts.clear()
    view = array[5:].reshape(5, -1)
    del array
    assert view.tolist() == [[b"one"] * 399] * 5
    assert parts == []
    del view
    assert [part.stop - part.start for part in parts] == [SLICE] * (COUNT // SLICE) + [COUNT % SLICE]


def test_an_array_of_strings_is_made_in_slices(monkeypatch):
    sizes = []
    monkeypatch.setattr(object_arrays._Owner, "resize", lambda owner, size, refcheck: (
        sizes.append(size - owner.size), np.ndarray.resize(owner, size, refcheck=refcheck)
    ), raising=False)  # fmt: skip
    made = object_arrays.empty((1000, 100))
    assert made.shape == (1000, 100)
    assert made.flags.c_contiguous
    assert made.flags.writeable
    assert sum(sizes) == 100_000
    assert max(sizes) <= object_arrays._DIRECT


def test_gaps_between_moved_strings_are_filled(small):
    strings = object_arrays.make_array([b"%d" % number for number in range(COUNT)])
    with af.Graph().as_default():
        places = 2 * np.arange(COUNT)
        stitched = evaluate(af.dynamic_stitch([places], [strings])).tolist()
        padded = evaluate(af.pad(strings, [[1, 2]], constant_values=b"x")).tolist()
    assert stitched[::2] == strings.tolist()
    assert set(stitched[1::2]) == {b""}
    assert padded == [b"x", *strings.tolist(), b"x", b"x"]


@pytest.mark.real
async def test_the_loop_turns_while_a_thread_maps_strings():
    """NumPy releases the GIL in each slice so briefly that a waiting thread misses it, and never demands it."""
    texts = np.full(amount(300_000, 1_000_000), b"12", object)
    work = asyncio.create_task(asyncio.to_thread(object_arrays.map_elements, float, np.float32, texts))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(await work) == len(texts)
    assert turns >= 50
