"""An error for a wrong argument of a public call names the argument and the expected type."""

import asyncio
import inspect

import numpy as np
import pytest

import aioflow as af
from aioflow.graph.numpy_functions import equivalent_name

LIST = "must be a list, not"
TARGET = r"target must be text, 'ws://host:2222', not .*; pass graph= and config= by name"
PATH = "a path must be text or a Path, not"
SGD = af.train.GradientDescentOptimizer(0.1)


class World:
    """A graph that trains, and a session on it."""

    def __init__(self, folder):
        self.graph = af.Graph()
        with self.graph.as_default():
            self.x = af.placeholder(af.float32, [2], name="x")
            self.v = af.Variable([1.0, 2.0], name="v")
            self.loss = af.reduce_sum(self.v * self.x)
            self.saver = af.train.Saver()
        self.session = af.Session(graph=self.graph)
        self.path = str(folder / "checkpoint")


WRONG = {
    "Session(37)": (lambda w: af.Session(37), TARGET),
    "Session(graph)": (lambda w: af.Session(w.graph), TARGET),
    "Session(config)": (lambda w: af.Session(af.Config()), TARGET),
    "Session(bytes)": (lambda w: af.Session(b"ws://host:2222"), TARGET),
    "Session(graph=3)": (lambda w: af.Session(graph=3), "graph must be Graph, not 3"),
    "Session(config={})": (lambda w: af.Session(config={}), "config must be Config or ConfigProto, not {}"),
    "run(3)": (lambda w: w.session.run(3), "cannot fetch 3"),
    "run(None)": (lambda w: w.session.run(None), "a fetch is None; fetch a tensor"),
    "run feeds": (lambda w: w.session.run(w.loss, [1]), "feeds are a dict from tensors, or their names, to values"),
    "run feed of text": (lambda w: w.session.run(w.loss, {w.x: [1.0, "a"]}),
                         r"cannot feed 'x:0' of float32\[2\]: 'a' of type str at \[1\] is not a value of dtype"),
    "run feed of None": (lambda w: w.session.run(w.loss, {w.x: [None, 1]}), r"None of type NoneType at \[0\]"),
    "run options": (lambda w: w.session.run(w.loss, options={}), "options must be RunOptions, not {}"),
    "run metadata": (lambda w: w.session.run(w.loss, metadata={}), "metadata must be RunMetadata, not {}"),
    "make_callable": (lambda w: w.session.make_callable(w.loss, w.x), f"feeds {LIST} <af.Tensor 'x:0'"),
    "make_callable number": (lambda w: w.session.make_callable(w.loss, 3), f"feeds {LIST} 3"),
    "make_callable text": (lambda w: w.session.make_callable(w.loss, "x"), f"feeds {LIST} 'x'"),
    "partial_run_setup": (lambda w: w.session.partial_run_setup(w.loss, w.x), f"feeds {LIST}"),
    "partial_run_setup options": (lambda w: w.session.partial_run_setup(w.loss, [w.x], {}), "options must be Run"),
    "restore(3)": (lambda w: w.saver.restore(w.session, 3), f"{PATH} 3"),
    "restore without session": (lambda w: w.saver.restore(None, w.path), "session must be an af.Session, not None"),
    "restore options": (lambda w: w.saver.restore(w.session, w.path, {}), "options must be RunOptions, not {}"),
    "save(None)": (lambda w: w.saver.save(w.session, None), f"{PATH} None"),
    "save without session": (lambda w: w.saver.save(None, w.path), "session must be an af.Session, not None"),
    "save options": (lambda w: w.saver.save(w.session, w.path, options={}), "options must be RunOptions, not {}"),
    "latest_checkpoint": (lambda w: af.train.latest_checkpoint(None), f"{PATH} None"),
    "Saver(3)": (lambda w: af.train.Saver(3), f"var_list {LIST} 3"),
    "Saver(name)": (lambda w: af.train.Saver("v"), f"var_list {LIST} 'v'"),
    "Saver of a variable": (lambda w: af.train.Saver(w.v), f"var_list {LIST}"),
    "Saver of tensors": (lambda w: af.train.Saver([w.loss]), "saves variables and lookup tables, not <af.Tensor"),
    "minimize(name)": (lambda w: SGD.minimize("loss"), "the loss must be a tensor, not 'loss'"),
    "minimize(None)": (lambda w: SGD.minimize(None), "the loss must be a tensor, not None"),
    "minimize(list)": (lambda w: SGD.minimize([w.loss]), "the loss must be a tensor"),
    "minimize var_list": (lambda w: SGD.minimize(w.loss, var_list="v"), f"var_list {LIST} 'v'"),
    "minimize a variable": (lambda w: SGD.minimize(w.loss, var_list=w.v), f"var_list {LIST}"),
    "minimize names": (lambda w: SGD.minimize(w.loss, var_list=["v"]), "var_list must hold variables, not 'v'"),
    "minimize global_step": (lambda w: SGD.minimize(w.loss, global_step=3), "global_step must be a variable, not 3"),
    "compute_gradients": (lambda w: SGD.compute_gradients("loss"), "the loss must be a tensor, not 'loss'"),
    "apply_gradients": (lambda w: SGD.apply_gradients(3), f"grads_and_vars {LIST} 3"),
    "apply_gradients of one": (lambda w: SGD.apply_gradients([w.loss]), "grads_and_vars must hold pairs"),
    "apply_gradients step": (lambda w: SGD.apply_gradients([(w.x, w.v)], global_step=3), "global_step must be a var"),
    "gradients": (lambda w: af.gradients("loss", w.v), "gradients are taken of tensors and variables, not 'loss'"),
    "gradients of names": (lambda w: af.gradients(w.loss, "v"), "with respect to tensors and variables, not 'v'"),
    "device": (lambda w: w.graph.device(3).__enter__(), "a device must be a name, as '/cpu:0', or a function"),
    "name_scope": (lambda w: w.graph.name_scope(3).__enter__(), "the name of a name scope must be text, not 3"),
    "control_dependencies": (lambda w: af.control_dependencies(w.loss).__enter__(), f"control_inputs {LIST}"),
    "control_dependencies(3)": (lambda w: af.control_dependencies(3).__enter__(), f"control_inputs {LIST} 3"),
    "placeholder": (lambda w: af.placeholder("flaot32"), "'flaot32' is not a dtype of aioflow; it has bool, int8"),
    "hooks": (lambda w: af.train.MonitoredSession(hooks=3), f"hooks {LIST} 3"),
    "a hook": (lambda w: af.train.MonitoredSession(hooks=[3]), "a hook is a SessionRunHook, not 3"),
    "float(tensor)": (lambda w: float(w.loss), "has no value while the graph is built: use `await session.run"),
    "int(variable)": (lambda w: int(w.loss), "has no value while the graph is built"),
    "np.asarray": (lambda w: np.asarray(w.loss), "is not an array while the graph is built: use `await session.run"),
    "np.exp": (lambda w: np.exp(w.x), "np.exp takes arrays, and <af.Tensor 'x:0' float32.* use af.exp in the graph"),
    "np.exp of a variable": (lambda w: np.exp(w.v), "np.exp takes arrays, and <af.Variable 'v:0'.* use af.exp"),
    "np.mean": (lambda w: np.mean(w.x), "np.mean takes arrays.* use af.reduce_mean in the graph, or the value from"),
    "np.concatenate": (lambda w: np.concatenate([w.x, [1.0]]), "np.concatenate takes arrays.* use af.concat"),
    "np.linalg.norm": (lambda w: np.linalg.norm(w.x), "np.linalg.norm takes arrays.* use af.linalg.norm in the graph"),
    "np.fft.fft": (lambda w: np.fft.fft(w.x), "np.fft.fft takes arrays.* no value yet: use the value from a run"),
    "np.add.reduce": (lambda w: np.add.reduce(w.x), "np.add.reduce takes arrays.* no value yet: use the value"),
    "np.hypot": (lambda w: np.hypot(w.x, 1.0), "np.hypot takes arrays.* no value yet: use the value from a run"),
}  # fmt: skip


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    with world.graph.as_default():
        yield world


@pytest.mark.parametrize("call", WRONG)
async def test_a_wrong_argument_is_named(world, call):
    act, text = WRONG[call]

    async def call_it():
        found = act(world)
        return await found if inspect.isawaitable(found) else found

    with pytest.raises(TypeError, match=text):
        await call_it()
    await world.session.close()


ERRORS = [each for each in vars(af.errors).values() if inspect.isclass(each) and issubclass(each, af.errors.OpError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_with_tensorflows_arguments_name_the_arguments_here(kind):
    with pytest.raises(TypeError, match=rf"{kind.__name__}\('the text', op=None\)"):
        kind(None, None, "the text")
    assert str(kind("the text")) == "the text"


OPERATORS = [np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.power, np.less,
             np.less_equal, np.greater, np.greater_equal]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS)
async def test_operators_between_arrays_and_tensors_build_operations(function):
    array = np.array([2.0, 5.0, 3.0], np.float32)
    with af.Graph().as_default() as graph:
        x = af.constant([3.0, 2.0, 3.0])
        v = af.Variable([3.0, 2.0, 3.0])
        made = [function(array, x), function(x, array), function(array, v), function(np.float32(2), x)]
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        found = await session.run(made)
    value = np.array([3.0, 2.0, 3.0], np.float32)
    expected = [function(array, value), function(value, array), function(array, value), function(np.float32(2), value)]
    np.testing.assert_allclose(found, expected)


def test_equality_with_an_array_is_identity_and_builds_nothing():
    with af.Graph().as_default() as graph:
        x = af.constant([1.0])
        before = graph.version
        assert (np.ones(1) == x) is False
        assert (np.ones(1) != x) is True
        assert graph.version == before


def test_the_functions_suggested_for_numpys_functions_exist():
    for name in dir(np):
        found = equivalent_name(name)
        value = af
        for part in found.split(".") if found else ():
            value = getattr(value, part)
        same = getattr(af, name, None)
        if isinstance(getattr(np, name), np.ufunc) and same is not None:
            assert found is not None, f"np.{name}"


def test_the_version_is_that_of_the_package():
    assert af.__version__.split(".")[0].isdigit()


@pytest.mark.real
async def test_the_error_for_an_unreachable_master_names_it_and_the_remedy():
    with af.Graph().as_default() as graph:
        x = af.constant(1.0)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    text = rf"Cannot connect to the master at 127\.0\.0\.1:{port}: connection refused\. Start it, or set Config\(oper"
    async with af.Session(f"ws://127.0.0.1:{port}", graph=graph) as session:
        with pytest.raises(af.errors.UnavailableError, match=text):
            await session.run(x)
