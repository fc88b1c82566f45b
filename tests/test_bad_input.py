"""Bad input, in one table: each mistake is a specific error that says where, what was given, and what to do instead."""

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.array.constants import prevent_gradient
from tests.support.doubles import heavy, light, waiting

HERE = r"test_bad_input\.py:\d+ in "
INVALID = af.errors.InvalidArgumentError


class World:
    """A graph with something of each kind, and a session on it."""

    def __init__(self) -> None:
        self.graph = af.Graph()
        with self.graph.as_default():
            self.x = af.placeholder(af.float32, [None, 3], name="x")
            self.n = af.placeholder(af.int32, [], name="n")
            self.w = af.constant(np.ones((3, 2), np.float32), name="w")
            self.v = af.Variable(np.zeros((3,), np.float32), name="v")
            self.y = af.matmul(self.x, self.w, name="y")
            self.sizes = af.constant([3, 2], name="sizes")
            self.filled = af.reshape(self.w, self.sizes)
            self.log = af.log(self.y, name="log")
            self.more = self.v.assign_add(np.ones((3,), np.float32))
            self.parts = af.split(self.w, 3, name="parts")
            self.guarded = prevent_gradient(self.y, "by me", name="guarded")
        with af.Graph().as_default():
            self.foreign = af.constant(1.0, name="foreign")
        self.session = af.Session(graph=self.graph)

    def built(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` builds, and that a failed building leaves the graph as it was."""
        version = self.graph.version
        with self.graph.as_default():
            try:
                return function(*args, **kwargs)
            except BaseException:
                assert self.graph.version == version
                raise

    def run(self, fetches: Any, feeds: Any = None, **options: Any) -> Any:
        return self.session.run(fetches, feeds, af.RunOptions(**options) if options else None)

    def raising(self, op: Any, x: Any, error: BaseException) -> Any:
        def fail(value: Any) -> Any:
            raise error

        async def fail_later(value: Any) -> Any:
            await asyncio.sleep(0)
            raise error

        return self.built(op, x, fail_later if op is waiting else fail, name="broken")

    def run_raising(self, op: Any, error: BaseException) -> Any:
        broken = self.raising(op, self.built(af.tanh, self.x), error)
        return self.run(self.built(af.negative, broken), {self.x: np.ones((2, 3))})

    def unknown_shapes(self, *shapes: list[int]) -> tuple[Any, dict[Any, Any]]:
        feeds = {self.built(af.placeholder, af.float32): np.ones(shape) for shape in shapes}
        return self.built(af.add, *feeds, name="sum"), feeds

    def finalized(self) -> "World":
        self.graph.finalize()
        return self

    async def closed(self) -> "World":
        await self.session.close()
        return self

    async def used(self) -> "World":
        await self.session.run([])
        return self


def case(label: str, act: Callable[[World], Any], error: type[BaseException], *texts: str) -> Any:
    """One mistake: what is done, what is raised, and the patterns its text must hold."""
    return pytest.param(act, error, texts, id=label)


# fmt: off
BUILDING = [
    case("dtypes differ", lambda g: g.built(af.add, g.x, g.n, name="sum"), TypeError,
         "add 'sum'", "cast one of them", r"inputs: x:0 float32\[\?, 3\], n:0 int32\[\]", HERE),
    case("dtype not supported", lambda g: g.built(af.tanh, g.n), TypeError,
         "tanh", "dtype int32 is not supported; use one of", r"n:0 int32\[\]", HERE),
    case("literal of another dtype", lambda g: g.built(af.add, g.n, 1.5), TypeError,
         "add: argument 'y'", r"1\.5", "int32", HERE),
    case("ranks", lambda g: g.built(af.matmul, g.x, [1.0, 2.0, 3.0]), ValueError,
         "matmul", "rank", r"x:0 float32\[\?, 3\]", r"float32\[3\]", HERE),
    case("inner sizes", lambda g: g.built(af.matmul, g.w, g.w, name="product"), ValueError,
         "matmul 'product'", "2", r"inputs: w:0 float32\[3, 2\], w:0 float32\[3, 2\]", HERE),
    case("shapes do not broadcast", lambda g: g.built(af.add, g.x, g.w), ValueError,
         "add", r"\[\?, 3\] and \[3, 2\] cannot be broadcast", "x:0", "w:0", HERE),
    case("operator", lambda g: g.built(lambda: g.x + g.w), ValueError, "add", "cannot be broadcast", HERE),
    case("reshape to another size", lambda g: g.built(af.reshape, g.w, [4]), ValueError,
         "reshape", r"\[3, 2\]", r"\[4\]", HERE),
    case("axis", lambda g: g.built(af.reduce_sum, g.x, 5), ValueError,
         "axis 5 is out of range for rank 2", "x:0", HERE),
    case("concat of unlike shapes", lambda g: g.built(af.concat, [g.w, g.v], 0), ValueError, "concat", "w:0", HERE),
    case("too many arguments", lambda g: g.built(af.tanh, g.x, g.x), TypeError, r"tanh\(", "too many positional"),
    case("missing argument", lambda g: g.built(af.matmul, g.x), TypeError, r"matmul\(", "missing.*'b'"),
    case("unknown argument", lambda g: g.built(af.matmul, g.x, g.w, transpose=True), TypeError,
         r"matmul\(", "unexpected keyword argument 'transpose'"),
    case("list wanted", lambda g: g.built(af.stack, g.x), ValueError, "size of the axis is not known", "x:0", HERE),
    case("bad name", lambda g: g.built(af.tanh, g.x, name="with space"), ValueError,
         "'with space' is not a valid operation name: letters, digits"),
    case("bad scope", lambda g: g.graph.name_scope("_x").__enter__(), ValueError,
         "'_x' is not a valid scope name: letters, digits"),
    case("bad dtype", lambda g: g.built(af.placeholder, "float33"), TypeError, "float33"),
    case("negative size", lambda g: g.built(af.placeholder, af.float32, [-1]), ValueError, "negative: -1"),
    case("another graph", lambda g: g.built(af.add, g.w, g.foreign), ValueError,
         "'foreign:0'", "belongs to another graph"),
    case("ragged", lambda g: g.built(af.constant, [[1], [2, 3]]), ValueError, "cannot be made into one array"),
    case("constant does not fit", lambda g: g.built(af.constant, 300, af.uint8), TypeError, "300", "uint8"),
    case("truth of a tensor", lambda g: bool(g.y), TypeError, "'y:0'", r"af\.cond, af\.where"),
    case("iteration", lambda g: list(g.y), TypeError, "'y:0'", r"af\.unstack"),
    case("length", lambda g: len(g.y), TypeError, "'y:0'", r"\.shape"),
    case("not in the graph", lambda g: g.graph.get_tensor_by_name("z:0"), KeyError, "no operation 'z'", "'z:0'"),
    case("no tensor's name", lambda g: g.graph.get_tensor_by_name("x"), ValueError, "a tensor's name is 'x:0'"),
    case("no such output", lambda g: g.graph.get_tensor_by_name("x:3"), KeyError, "'x' has 1 outputs", "'x:3'"),
    case("several outputs", lambda g: g.parts[0].op.output, ValueError, "'parts' has 3 outputs", "use .outputs"),
    case("unknown attribute", lambda g: g.y.op.get_attr("nope"), ValueError,
         "'y' has no attribute 'nope'; it has transpose_a"),
    case("shape contradicts", lambda g: g.y.set_shape([None, 7]), ValueError, r"\[\?, 2\]", r"\[\?, 7\]"),
    case("variable without a value", lambda g: g.built(af.Variable), ValueError, "needs an initial_value"),
    case("assign another shape", lambda g: g.built(g.v.assign, [1.0]), ValueError,
         "assign", r"\[3\]", r"\[1\]", HERE),
    case("assign another dtype", lambda g: g.built(g.v.assign, g.n), TypeError, "n:0", "float32", r"af\.cast"),
    case("assign to a tensor", lambda g: g.built(af.assign, g.x, 1.0), TypeError,
         "only a variable can be assigned", "x:0"),
    case("prevented gradient", lambda g: g.built(af.gradients, g.guarded, [g.x]), LookupError,
         "the gradient through 'guarded' is prevented: by me"),
    case("after finalize", lambda g: g.finalized().built(af.add, g.w, g.w, name="late"), RuntimeError,
         "the graph is finalized", r"build everything before finalize\(\)"),
    case("variable after finalize", lambda g: g.finalized().built(af.Variable, 1.0), RuntimeError, "finalized"),
    case("collection after finalize", lambda g: g.finalized().graph.add_to_collection("c", 1), RuntimeError,
         "finalized"),
]

CALLING = [
    case("fetch of nothing", lambda g: g.run(None), TypeError, "a fetch is None", "fetch a tensor"),
    case("fetch of a number", lambda g: g.run(3), TypeError, "cannot fetch 3", "int is neither a tensor nor"),
    case("fetch of an unknown name", lambda g: g.run("z:0"), ValueError, "cannot fetch 'z:0'", "no operation 'z'"),
    case("fetch from another graph", lambda g: g.run(g.foreign), ValueError,
         "'foreign:0'", "not an element of this graph"),
    case("fetch of a handle", lambda g: g.run(g.v.handle), ValueError,
         "'v:0' is a handle", "fetch what is read from it", HERE),
    case("missing feed", lambda g: g.run(g.y), INVALID,
         r"placeholder 'x' must be fed a value of float32\[\?, 3\]", "feeds={x", "op: 'x' ", HERE),
    case("feed of another rank", lambda g: g.run(g.y, {g.x: [1.0, 2.0, 3.0]}), ValueError,
         r"shape \[3\] for 'x:0', which has shape \[\?, 3\]", HERE),
    case("feed of another size", lambda g: g.run(g.y, {g.x: np.ones((2, 4))}), ValueError,
         r"shape \[2, 4\] for 'x:0', which has shape \[\?, 3\]", HERE),
    case("feed of text", lambda g: g.run(g.y, {g.x: "text"}), TypeError,
         r"'x:0' of float32\[\?, 3\]", "'text'", HERE),
    case("feed of a fraction", lambda g: g.run(g.n, {g.n: 1.5}), TypeError,
         r"'n:0' of int32\[\]", r"1\.5", HERE),
    case("feed too large", lambda g: g.run(g.n, {g.n: 1 << 40}), TypeError, "'n:0'", "1099511627776", "int32", HERE),
    case("feed of a tensor", lambda g: g.run(g.y, {g.x: g.w}), TypeError,
         "'x:0' cannot be fed", "'w:0'", "NumPy array", HERE),
    case("feed for a variable", lambda g: g.run(g.y, {g.v: 1.0}), TypeError,
         "variable cannot be fed", "'v", "assign to it"),
    case("feed for a handle", lambda g: g.run(g.y, {g.v.handle: 1.0}), ValueError, "'v:0' is a handle", HERE),
    case("feed for an operation", lambda g: g.run(g.y, {g.x.op: 1.0}), TypeError, "operation 'x'", "outputs: 'x:0'"),
    case("feed by an operation's name", lambda g: g.run(g.y, {"x": 1.0}), ValueError, "a tensor's name is 'x:0'"),
    case("feed by an unknown name", lambda g: g.run(g.y, {"z:0": 1.0}), ValueError, "no operation 'z'"),
    case("feed for a shape built upon", lambda g: g.run(g.filled, {g.sizes: [2, 3]}), ValueError,
         r"'sizes:0'", "built from its value", "a placeholder instead", HERE),
    case("feed twice", lambda g: g.run(g.y, {g.x: 1.0, "x:0": 1.0}), ValueError, "'x:0' is fed twice", HERE),
    case("feeds no dict", lambda g: g.run(g.y, [1.0]), TypeError, "feeds are a dict", "not a list"),
    case("callable with too few values", lambda g: g.session.make_callable(g.y, [g.x])(), TypeError,
         r"takes 1 values, for \['x:0'\], and was given 0"),
    case("uninitialized variable", lambda g: g.run(g.v), af.errors.FailedPreconditionError,
         "variable 'v' is not initialized", r"af\.global_variables_initializer\(\)", HERE),
    case("update of an uninitialized variable", lambda g: g.run(g.more), af.errors.FailedPreconditionError,
         "variable 'v' is not initialized", HERE),
    case("limit below zero", lambda g: g.run(g.w, timeout=-1), ValueError,
         "timeout is in seconds and cannot be -1"),
    case("closed", lambda g: after(g.closed(), lambda: g.run(g.w)), RuntimeError,
         "the session is closed; open a new one"),
    case("no partial run", lambda g: g.session.partial_run("handle", g.w), INVALID,
         "'handle' is not a partial run of this session; see partial_run_setup"),
    case("another loop", lambda g: after(g.used(), lambda: elsewhere(lambda: g.run(g.w))), RuntimeError,
         "belongs to another event loop; open one session per loop"),
    case("no default session", lambda g: g.y.eval(), ValueError,
         r"no default session: use `async with af\.Session\(\)` or `with session\.as_default"),
]

KERNELS_THAT_RAISE = [
    case(f"{cause.__name__} in {op.name}", lambda g, op=op, cause=cause: g.run_raising(op, cause("the cause")), error,
         "the cause", rf"op: 'broken' \({op.name}\)", r"inputs: float32\[2, 3\]", HERE)
    for op in (light, heavy, waiting)
    for cause, error in (
        (ValueError, INVALID), (TypeError, INVALID), (IndexError, INVALID), (KeyError, af.errors.UnknownError),
        (ZeroDivisionError, af.errors.UnknownError), (NotImplementedError, af.errors.UnimplementedError),
        (MemoryError, af.errors.ResourceExhaustedError), (StopIteration, af.errors.OutOfRangeError),
        (FileNotFoundError, af.errors.NotFoundError), (TimeoutError, af.errors.DeadlineExceededError),
        (ConnectionResetError, af.errors.UnavailableError), (af.errors.AbortedError, af.errors.AbortedError),
    )
]

RUNNING = [
    case("inputs that are constants", lambda g: g.run(g.raising(waiting, g.w, ValueError("bad"))), INVALID,
         "bad", r"inputs: float32\[3, 2\]", HERE),
    case("shapes that only a run knows", lambda g: g.run(*g.unknown_shapes([2, 3], [4, 3])), INVALID,
         r"op: 'sum' \(add\)", r"inputs: float32\[2, 3\], float32\[4, 3\]", HERE),
    case("index out of range", lambda g: g.run(g.built(af.gather, g.w, g.n), {g.n: 7}), INVALID,
         "7", r"\(gather\)", r"float32\[3, 2\]", HERE),
    case("not finite", lambda g: g.run(g.log, {g.x: -np.ones((1, 3))}, check_numerics=True), INVALID,
         "log:0 is not finite: 2 NaN", r"op: 'log' \(log\)", r"float32\[1, 2\] in \[-3, -3\]", HERE),
    case("limit passed", lambda g: g.run(g.built(waiting, g.w, never, name="slow"), timeout=2),
         af.errors.DeadlineExceededError,
         "longer than 2 s on /job:localhost/replica:0/task:0", r"waiting for 'slow' \(test_waiting\)"),
]
# fmt: on


async def never(value: Any) -> Any:
    await asyncio.Event().wait()


async def after(first: Any, second: Callable[[], Any]) -> Any:
    await first
    return await second()


async def elsewhere(call: Callable[[], Any]) -> Any:
    """`await call()` on the loop of another thread; what it raised is raised here."""
    raised: list[BaseException] = []

    def use() -> None:
        try:
            asyncio.run(call())
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    raise raised[0]


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.session.close()


@pytest.mark.parametrize(("act", "error", "texts"), BUILDING)
def test_building(act, error, texts):
    with pytest.raises(error) as caught:
        act(World())
    assert type(caught.value) is error
    says(caught.value, texts)


@pytest.mark.parametrize(("act", "error", "texts"), CALLING + KERNELS_THAT_RAISE + RUNNING)
async def test_running(world, act, error, texts):
    with pytest.raises(error) as caught:
        await act(world)
    assert type(caught.value) is error
    says(caught.value, texts)
    assert len(str(caught.value).splitlines()) < 20  # one screen
    if not world.session._closed:
        assert (await world.session.run(world.w)).shape == (3, 2)


def says(error, texts):
    for text in texts:
        assert re.search(text, str(error)), f"{text!r} is not in:\n{error}"
