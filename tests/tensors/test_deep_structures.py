"""Structures that are thousands deep, or contain themselves, raise ValueError; long graphs work."""

import contextlib
import inspect

import numpy as np
import pytest

import aioflow as af
from tests.support.scale import amount, some

DEEP = amount(1500, 3000)
SAYS = "nested|contain|too deep|maximum|dimension|one array|inhomogeneous"


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def nested(kind, leaf):
    found = leaf
    for _ in range(DEEP):
        found = {"a": found} if kind is dict else kind([found])
    return found


def cyclic(kind, leaf):
    found = {"a": leaf} if kind is dict else [leaf]
    found["b" if kind is dict else slice(1, 1)] = found if kind is dict else [found]
    return found


SHAPES = {
    "a deep list": lambda leaf: nested(list, leaf),
    "a deep tuple": lambda leaf: nested(tuple, leaf),
    "a deep dict": lambda leaf: nested(dict, leaf),
    "a list in itself": lambda leaf: cyclic(list, leaf),
    "a dict in itself": lambda leaf: cyclic(dict, leaf),
}
OF_ANY = {
    "cond": lambda make: af.cond(af.constant(True), lambda: make(af.constant(1.0)), lambda: make(af.constant(2.0))),
    "while_loop": lambda make: af.while_loop(lambda *_: af.constant(False), lambda *a: a, [make(af.constant(1.0))]),
    "map_fn": lambda make: af.map_fn(lambda a: a, make(af.constant([1.0]))),
    "scan": lambda make: af.scan(lambda a, b: a, make(af.constant([1.0]))),
    "group": lambda make: af.group(make(af.constant(1.0))),
    "dynamic_rnn": lambda make: af.nn.dynamic_rnn(
        af.nn.rnn_cell.BasicRNNCell(2), af.zeros([1, 2, 2]), initial_state=make(af.zeros([1, 2]))
    ),
}
OF_LISTS = {
    "stack": af.stack,
    "concat": lambda values: af.concat(values, 0),
    "add_n": af.add_n,
    "tuple": af.tuple,
    "identity_n": af.identity_n,
    "gradients": lambda values: af.gradients(values, values),
    "constant": lambda values: af.constant(values),
    "convert_to_tensor": af.convert_to_tensor,
    "reshape": lambda values: af.reshape([1.0], values),
    "py_func": lambda values: af.py_func(lambda a: a, values, af.float32),
    "Print": lambda values: af.Print(af.constant(1.0), values),
    "Assert": lambda values: af.Assert(af.constant(True), values),
    "global_norm": af.global_norm,
    "batch": lambda values: af.train.batch(values, 2),
    "merge": af.summary.merge,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("call", OF_ANY)
def test_structures_of_any_kind_are_refused_when_they_are_too_deep(call, shape):
    with pytest.raises(ValueError, match=SAYS):
        OF_ANY[call](SHAPES[shape])


@pytest.mark.parametrize("shape", ["a deep list", "a deep tuple", "a list in itself"])
@pytest.mark.parametrize("call", OF_LISTS)
def test_lists_are_refused_when_they_are_too_deep(call, shape):
    with pytest.raises((ValueError, TypeError)):
        OF_LISTS[call](SHAPES[shape](af.constant(1.0)))


@pytest.mark.parametrize("shape", SHAPES)
async def test_fetches_are_refused_when_they_are_too_deep(shape, graph):
    fetches = SHAPES[shape](af.constant(1.0))
    async with af.Session(graph=graph) as session:
        with pytest.raises(ValueError, match=SAYS):
            await session.run(fetches)
        with pytest.raises(ValueError, match=SAYS):
            session.make_callable(fetches)
        with pytest.raises(ValueError, match=SAYS):
            await session.partial_run_setup(fetches, [])


@pytest.mark.parametrize("shape", ["a deep list", "a deep tuple", "a list in itself"])
async def test_feeds_are_refused_when_they_are_too_deep(shape, graph):
    x = af.placeholder(af.float32, [])
    async with af.Session(graph=graph) as session:
        with pytest.raises(ValueError, match=SAYS):
            await session.run(x, {x: SHAPES[shape](1.0)})


async def test_a_structure_with_many_references_is_not_a_deep_one(graph):
    shared = [af.constant(1.0)]
    for _ in range(12):
        shared = [shared, shared]
    async with af.Session(graph=graph) as session:
        found = await session.run(shared)
    assert af.nest.flatten(found) == [1.0] * 4096


@pytest.mark.slow
async def test_long_chains_have_values_gradients_and_places(graph):
    x = af.placeholder(af.float32, [])
    y = x
    for _ in range(DEEP):
        y = y + 0.5
    (slope,) = af.gradients(y * y, x)
    async with af.Session(graph=graph) as session:
        assert await session.run([y, slope], {x: 1.0}) == [1.0 + DEEP / 2, 2.0 + DEEP]
        assert len((await session.placement(y, feeds=[x])).nodes) == DEEP


@pytest.mark.slow
async def test_long_chains_of_controls_and_deep_scopes_work(graph):
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(af.name_scope("s"))
        last = af.constant(3.0)
    for _ in range(3000):
        with af.control_dependencies([last]):
            last = af.identity(last)
    again = af.Graph()
    with again.as_default():
        af.import_graph_def(af.GraphDef.from_msgpack(graph.as_graph_def().to_msgpack()), name="")
    async with af.Session(graph=again) as session:
        assert await session.run(last.name) == np.float32(3)


SPACES = [af, af.nest, af.nn, af.train, af.image, af.linalg, af.sparse, af.summary, af.io]
UNCHECKED = {
    "DType": "not called by users: see as_dtype",
    "UnconnectedGradients": "Python's enum shows the value",
    "VariableAggregation": "Python's enum shows the value",
    "VariableSynchronization": "Python's enum shows the value",
    "Writing": "made by a Saver, inside a loop",
    "summarize_value": "takes an array, whose elements are shown by str",
}


def entries():
    """All public callables, each with each of its parameters."""
    seen = set()
    for space in SPACES:
        for name in sorted(set(dir(space)) - UNCHECKED.keys()):
            call = getattr(space, name)
            if name.startswith("_") or not callable(call) or id(call) in seen or _is_error(call):
                continue
            seen.add(id(call))
            with contextlib.suppress(TypeError, ValueError):  # without a signature
                yield name, call, inspect.signature(call).parameters.values()


def _is_error(call):
    return inspect.isclass(call) and issubclass(call, BaseException)


def called(call, parameters, chosen, given, leaf):
    """Call it with a structure for one parameter, and a tensor for each other that has no default."""
    args, kwargs = [], {}
    for each in parameters:
        value = given if each is chosen else leaf
        if each.kind is each.VAR_POSITIONAL and each is chosen:
            args.append(given)
        elif each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) or (
            each is not chosen and each.default != each.empty
        ):
            continue
        elif each.kind is each.POSITIONAL_ONLY or any(p.kind is p.VAR_POSITIONAL and p is chosen for p in parameters):
            args.append(value)
        else:
            kwargs[each.name] = value
    made = call(*args, **kwargs)
    if inspect.iscoroutine(made):
        made.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "shape",
    [
        "a deep list",
        pytest.param("a deep tuple", marks=pytest.mark.long),
        pytest.param("a deep dict", marks=pytest.mark.long),
        pytest.param("a list in itself", marks=pytest.mark.long),
    ],
)
def test_no_public_function_ends_in_a_recursion_error(shape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    everything = [(*entry, chosen) for entry in entries() for chosen in entry[-1]]
    assert len(everything) > 2000
    for name, call, parameters, chosen in some(everything, 300):
        with af.Graph().as_default():
            leaf = af.placeholder_with_default(1.0, [])
            try:
                called(call, parameters, chosen, SHAPES[shape](leaf), leaf)
            except RecursionError:
                found.append(f"{name}({chosen.name}=)")
            except Exception:  # other errors are the subject of the function's own tests
                continue
    assert not found
