"""The number of BLAS's threads while sessions want it otherwise than their host."""

import builtins
import threading

import numpy as np
import pytest
import threadpoolctl

from aioflow import errors
from aioflow.devices import blas

libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
needs_blas = pytest.mark.skipif(not libraries.info(), reason="NumPy's BLAS cannot be told how many threads it uses")


def now():
    return [library["num_threads"] for library in libraries.info()]


def on_a_thread(function):
    """Threadpoolctl obeys one thread as long as that lives, and this one lives long."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def host():
    """A host that uses two threads, and has them again afterwards."""
    before = now()
    on_a_thread(lambda: libraries.limit(limits=2))
    yield [2] * len(before)
    assert now() == [2] * len(before)
    on_a_thread(
        lambda: [library.set_num_threads(n) for library, n in zip(libraries.lib_controllers, before, strict=True)]
    )


def everyone(threads):
    return [threads] * len(now())


@needs_blas
def test_it_holds_until_it_is_released(host):
    limit = blas.limit_threads(1)
    assert now() == everyone(1)
    limit.release()
    assert now() == host


@needs_blas
def test_releasing_again_changes_nothing(host):
    first = blas.limit_threads(1)
    first.release()
    second = blas.limit_threads(3)
    first.release()
    assert now() == everyone(3)
    second.release()
    assert now() == host


@needs_blas
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_of_several_the_smallest_holds_whatever_the_order(host, order):
    wanted = [3, 1, 2]
    limits = [blas.limit_threads(threads) for threads in wanted]
    left = dict(enumerate(wanted))
    for number in order:
        assert now() == everyone(min(left.values()))
        limits[number].release()
        del left[number]
    assert now() == host


@needs_blas
def test_it_may_be_asked_for_and_released_on_different_threads(host):
    limits = []
    on_a_thread(lambda: limits.append(blas.limit_threads(1)))
    on_a_thread(lambda: limits.append(blas.limit_threads(4)))
    on_a_thread(lambda: limits.pop(0).release())
    assert now() == everyone(4)
    limits.pop().release()
    assert now() == host


@needs_blas
def test_products_are_the_same(host):
    a = np.random.default_rng(0).standard_normal((200, 200))
    plain = a @ a
    limit = blas.limit_threads(1)
    np.testing.assert_allclose(a @ a, plain)
    limit.release()


def test_without_threadpoolctl_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name == "threadpoolctl":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[blas\]"):
        blas.limit_threads(1)


class Fake:
    """A BLAS seen through threadpoolctl, that obeys as it likes."""

    def __init__(self, obeys):
        self.obeys = obeys
        self.numbers = {}

    def select(self, **_):
        return self

    def limit(self, limits):
        before = dict(self.numbers)
        if self.obeys is not None:
            self.numbers["all" if self.obeys == "process" else threading.get_ident()] = limits
        self.restore_original_limits = lambda: self.numbers.clear() or self.numbers.update(before)
        return self

    def info(self):
        number = self.numbers.get("all", self.numbers.get(threading.get_ident(), 2))
        return [{"num_threads": number, "internal_api": "openblas", "filepath": "/lib/x.so"}] * (self.obeys != "none")


@pytest.mark.parametrize(
    ("obeys", "text"),
    [
        (
            "thread",
            r"openblas at /lib/x\.so stays at 2 threads and cannot be limited to 1: it has a number for each",
        ),
        (None, r"or other code sets it; set OMP_NUM_THREADS before the process starts"),
        ("none", r"no BLAS that threadpoolctl knows"),
    ],
)
def test_a_blas_that_does_not_obey_is_an_error_and_leaves_nothing_asked_for(monkeypatch, obeys, text):
    fake = Fake(obeys)
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: fake)
    with pytest.raises(errors.UnimplementedError, match=text):
        blas.limit_threads(1)
    assert not fake.numbers
    obedient = Fake("process")
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: obedient)
    limit = blas.limit_threads(5)
    assert obedient.numbers == {"all": 5}
    limit.release()
    assert obedient.numbers == {}
