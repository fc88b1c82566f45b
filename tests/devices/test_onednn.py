"""oneDNN itself: where it is looked for, what its failures say, routines and their cache."""

import gc
import logging
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices import onednn
from aioflow.devices.onednn_primitive import Builder, Layout
from aioflow.devices.onednn_routines import RoutineCache

needs_library = pytest.mark.skipif(not onednn.available(), reason="oneDNN is not installed, or is switched off")


@pytest.fixture
def switch(monkeypatch):
    """Sets AIOFLOW_ONEDNN as if the process had begun with it."""

    def to(value):
        monkeypatch.setenv(onednn.SWITCH, value)
        onednn.library.cache_clear()

    yield to
    onednn.library.cache_clear()


def relu(size):
    """Adds the steps of a rectified linear unit over so many numbers."""

    def build(builder):
        layout = builder.layout(Layout((size,), (1,)))
        zero = onednn.ctypes.c_float(0)
        made = builder.primitive(
            "dnnl_eltwise_forward_primitive_desc_create", 96, 0x20, layout, layout, zero, zero
        )  # fmt: skip
        builder.run(made, {1: builder.array(layout), 17: builder.array(layout)})

    return build


def built(size):
    with Builder(onednn.library()) as builder:
        relu(size)(builder)
        return builder.finish()


# Where it is looked for


@pytest.mark.parametrize("value", ["off", "0", "OFF", " off "])
def test_it_can_be_switched_off(switch, value):
    switch(value)
    assert not onednn.available()


def test_a_path_where_nothing_is_raises_an_error_that_names_it_and_the_way_out(switch, tmp_path):
    switch(str(tmp_path / "nothing.so"))
    with pytest.raises(errors.NotFoundError, match=r"AIOFLOW_ONEDNN is '.*nothing\.so'.*or to 'off'"):
        onednn.library()


def test_a_file_that_is_no_library_raises_that_error_each_time(switch, tmp_path):
    (tmp_path / "text.so").write_text("no library")
    switch(str(tmp_path / "text.so"))
    for _ in range(2):
        with pytest.raises(errors.NotFoundError, match=r"text\.so"):
            onednn.available()


def test_another_library_is_refused(switch):
    switch("libc.so.6")
    with pytest.raises(errors.NotFoundError, match="libc"):
        onednn.library()


def test_where_there_is_none_none_is_missed(switch, monkeypatch, tmp_path):
    switch("")
    monkeypatch.setattr(onednn, "_candidate_paths", lambda: iter([str(tmp_path / "libdnnl.so.3")]))
    assert onednn.library() is None


def test_one_that_is_there_and_cannot_be_loaded_is_told_of_and_passed_over(switch, monkeypatch, tmp_path, caplog):
    switch("")
    broken = tmp_path / "libdnnl.so.3"
    broken.write_text("no library")
    monkeypatch.setattr(onednn, "_candidate_paths", lambda: iter([str(broken)]))
    with caplog.at_level(logging.WARNING, "aioflow.devices"):
        assert onednn.library() is None
    assert str(broken) in caplog.text


@needs_library
def test_it_is_loaded_from_a_path(switch):
    path = onednn.library().path
    switch(path)
    assert onednn.library().path == path
    assert onednn.library().version[0] == 3


def test_importing_aioflow_loads_nothing():
    code = "import aioflow; print('libdnnl' in open('/proc/self/maps').read())"
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("the system does not say what is loaded")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@needs_library
def test_loading_leaves_the_environment_as_it_was(switch):
    before = dict(os.environ)
    onednn.library.cache_clear()
    assert onednn.available()
    assert dict(os.environ) == before


FORKING = """
import os
import numpy as np
from aioflow.devices import onednn
from aioflow.tensors.dtypes import DeviceKind
from aioflow.kernels.array.constants import constant
from aioflow.kernels.linalg.matmul import matmul

a = np.ones((512, 512), np.float32)
y = matmul(constant(a), constant(a))

def product():
    kernel = matmul.kernel_for(DeviceKind.CPU, [t.spec for t in y.op.inputs])
    class View:
        attrs, input_specs, output_specs = y.op.attrs, [t.spec for t in y.op.inputs], [y.spec]
    return kernel.bind(matmul, View, np)(a, a)[0, 0]

assert onednn.available() and product() == 512
child = os.fork()
if not child:
    os._exit(0 if not onednn.available() and product() == 512 else 1)
print(os.waitpid(child, 0)[1], onednn.available())
"""


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_in_a_forked_process_it_is_switched_off():
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True)
    assert run.stdout == "0 True\n", run.stderr


# Failures


@needs_library
def test_a_failure_names_the_function_and_what_it_said():
    with pytest.raises(errors.InvalidArgumentError, match="dnnl_memory_desc_create_with_strides says invalid_argument"):
        onednn.library().create("dnnl_memory_desc_create_with_strides", 99, None, 3, None)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (1, errors.ResourceExhaustedError),
        (3, errors.UnimplementedError),
        (5, errors.InternalError),
        (77, errors.InternalError),
    ],
)
def test_every_status_but_success_is_an_error(status, error):
    onednn.check("dnnl_thing", 0)
    with pytest.raises(error, match="dnnl_thing"):
        onednn.check("dnnl_thing", status)


# Routines


@needs_library
def test_a_routine_computes_into_the_given_array():
    x, y = np.array([-1, 2, -3, 4], np.float32), np.empty(4, np.float32)
    built(4)(x, y)
    assert y.tolist() == [0, 2, 0, 4]


@needs_library
def test_a_routine_reads_arrays_that_may_not_be_written_or_have_gaps():
    x, y = np.array([[-1, 2], [-3, 4]], np.float32), np.empty(2, np.float32)
    column = x[:, 1]
    assert not column.flags.contiguous
    built(1)(column, y)
    x.flags.writeable = False
    built(1)(x[1:, 1:], y[1:])
    assert y.tolist() == [2, 4]


@needs_library
def test_a_routine_keeps_no_reference_to_arrays():
    x, y = np.ones(4, np.float32), np.empty(4, np.float32)
    before = sys.getrefcount(x), sys.getrefcount(y)
    routine = built(4)
    routine(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


@needs_library
def test_a_routine_may_hold_its_last_arrays():
    x, y = np.array([-1, 2, -3, 4], np.float32), np.empty(4, np.float32)
    routine = built(4).holding(y)
    routine(x)
    assert y.tolist() == [0, 2, 0, 4]
    with pytest.raises(TypeError, match="float64"):
        built(4).holding(np.empty(4))


@needs_library
@pytest.mark.real
def test_threads_may_run_one_routine_at_the_same_time():
    routine, wrong = built(1000), []

    def work(seed):
        x, y = np.random.default_rng(seed).standard_normal(1000).astype(np.float32), np.empty(1000, np.float32)
        for _ in range(200):
            routine(x, y)
            if not np.array_equal(y, np.maximum(x, 0)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@needs_library
def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago():
    cache, library = RoutineCache(capacity=2), onednn.library()
    one = cache.find(library, 1, relu(1))
    assert cache.find(library, 2, relu(2)) is not None
    assert cache.find(library, 1, relu(1)) is one
    assert cache.find(library, 3, relu(3)) is not None
    assert len(cache) == 2
    assert cache.find(library, 1, None) is one
    dropped = weakref.ref(one)
    cache.clear()
    del one
    gc.collect()
    assert dropped() is None


@needs_library
def test_what_cannot_be_built_is_remembered_too():
    cache, calls = RoutineCache(), []

    def build(builder):
        calls.append(builder)
        builder.layout(Layout((1,) * 13, (1,) * 12))

    def refuse(builder):
        calls.append(builder)
        onednn.check("dnnl_thing", 3)

    assert [cache.find(onednn.library(), "none", refuse) for _ in range(3)] == [None] * 3
    assert len(calls) == 1


@needs_library
def test_routines_that_are_dropped_leave_nothing_behind():
    destroyed, library = [], onednn.library()

    class Counting:
        def __getattr__(self, name):
            return getattr(library, name)

        def call(self, function, *arguments):
            if function.endswith("_destroy"):
                destroyed.append(function)
            library.call(function, *arguments)

        def create(self, function, *arguments):
            made.append(function)
            return library.create(function, *arguments)

    made = []
    with Builder(Counting()) as builder:
        relu(8)(builder)
        routine = builder.finish()
    routine(np.ones(8, np.float32), np.ones(8, np.float32))
    del routine
    gc.collect()
    assert len(made) == len(destroyed) > 4
