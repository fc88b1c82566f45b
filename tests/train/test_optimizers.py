"""Optimizers against the same formulas in NumPy, over several steps; what they build, and what they refuse."""

import numpy as np
import pytest

import aioflow as af
from aioflow.train.optimizer import create_slot

ROWS, COLUMNS, STEPS = 6, 3, 4


# The formulas: state -> state after one step with gradient g; t counts from 1


def descent(s, g, t, lr=0.1):
    return {"var": s["var"] - lr * g}


def momentum(s, g, t, lr=0.1, momentum=0.9, nesterov=False):
    accum = momentum * s["momentum"] + g
    step = lr * g + lr * momentum * accum if nesterov else lr * accum
    return {"var": s["var"] - step, "momentum": accum}


def adagrad(s, g, t, lr=0.1):
    accum = s["accumulator"] + g * g
    return {"var": s["var"] - lr * g / np.sqrt(accum), "accumulator": accum}


def adadelta(s, g, t, lr=0.5, rho=0.9, epsilon=1e-3):
    accum = rho * s["accum"] + (1 - rho) * g * g
    step = np.sqrt(s["accum_update"] + epsilon) / np.sqrt(accum + epsilon) * g
    update = rho * s["accum_update"] + (1 - rho) * step * step
    return {"var": s["var"] - lr * step, "accum": accum, "accum_update": update}


def rms_prop(s, g, t, lr=0.1, rho=0.8, momentum=0.5, epsilon=1e-2, centered=False):
    rms = s["rms"] + (1 - rho) * (g * g - s["rms"])
    mean = s["mg"] + (1 - rho) * (g - s["mg"]) if centered else 0
    mom = momentum * s["momentum"] + lr * g / np.sqrt(rms - mean * mean + epsilon)
    return {"var": s["var"] - mom, "rms": rms, "momentum": mom} | ({"mg": mean} if centered else {})


def adam(s, g, t, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    m, v = s["m"] + (1 - b1) * (g - s["m"]), s["v"] + (1 - b2) * (g * g - s["v"])
    rate = lr * np.sqrt(1 - b2**t) / (1 - b1**t)
    return {"var": s["var"] - rate * m / (np.sqrt(v) + epsilon), "m": m, "v": v}


def adam_w(s, g, t, lr=0.1):
    return adam(s | {"var": s["var"] - lr * 0.5 * s["var"]}, g, t, lr)


def adamax(s, g, t, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    m, u = s["m"] + (1 - b1) * (g - s["m"]), np.maximum(b2 * s["u"], np.abs(g))
    return {"var": s["var"] - lr * m / ((1 - b1**t) * (u + epsilon)), "m": m, "u": u}


def nadam(s, g, t, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    now, product, then = (
        b1 * (1 - 0.96**t / 2),
        np.prod([b1 * (1 - 0.96**i / 2) for i in range(1, t + 1)]),
        b1 * (1 - 0.96 ** (t + 1) / 2),
    )
    m, v = s["m"] + (1 - b1) * (g - s["m"]), s["v"] + (1 - b2) * (g * g - s["v"])
    mean = then * m / (1 - product * then) + (1 - now) * g / (1 - product)
    return {"var": s["var"] - lr * mean / (np.sqrt(v / (1 - b2**t)) + epsilon), "m": m, "v": v}


def lion(s, g, t, lr=0.1, b1=0.8, b2=0.95):
    step = lr * np.sign(b1 * s["m"] + (1 - b1) * g)
    return {"var": s["var"] - step, "m": s["m"] + (1 - b2) * (g - s["m"])}


def lamb(s, g, t, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    m, v = s["m"] + (1 - b1) * (g - s["m"]), s["v"] + (1 - b2) * (g * g - s["v"])
    r = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    own, length = np.sqrt((s["var"] ** 2).sum()), np.sqrt((r * r).sum())
    return {"var": s["var"] - lr * r * (own / length if own and length else 1), "m": m, "v": v}


def adafactor(s, g, t, lr=0.1, decay=-0.7, epsilon1=1e-9, epsilon2=0.2, clip=0.8):
    b, size = 1 - t**decay, g * g + epsilon1
    if g.ndim < 2:
        parts = {"v": b * s["v"] + (1 - b) * size}
        mean = parts["v"]
    else:
        parts = {name: b * s[name] + (1 - b) * size.mean(axis) for name, axis in (("rows", -1), ("columns", -2))}
        rows, columns = parts["rows"], parts["columns"]
        mean = rows[..., None] / rows.mean(-1, keepdims=True)[..., None] * columns[..., None, :]
    u, rate = g / np.sqrt(mean), min(lr, 1 / np.sqrt(t)) * max(epsilon2, np.sqrt((s["var"] ** 2).mean()))
    return {"var": s["var"] - rate * u / max(1, np.sqrt((u * u).mean()) / clip), **parts}


def ftrl(s, g, t, lr=0.5, power=-0.5, l1=0.0, l2=0.0, shrinkage=0.0):
    accum = s["accum"] + g * g
    sigma = (accum**-power - s["accum"] ** -power) / lr
    linear = s["linear"] + g + 2 * shrinkage * s["var"] - sigma * s["var"]
    var = (l1 * np.sign(linear) - linear) / (accum**-power / lr + 2 * l2)
    return {"var": np.where(np.abs(linear) > l1, var, 0), "accum": accum, "linear": linear}


def shrunk(moved, threshold, scale):
    return np.sign(moved) * np.maximum(np.abs(moved) - threshold, 0) / scale


def proximal_descent(s, g, t, lr=0.5, l1=0.2, l2=0.3):
    return {"var": shrunk(s["var"] - lr * g, lr * l1, 1 + lr * l2)}


def proximal_adagrad(s, g, t, lr=0.5, l1=0.2, l2=0.3):
    accum = s["accumulator"] + g * g
    rate = lr / np.sqrt(accum)
    return {"var": shrunk(s["var"] - rate * g, rate * l1, 1 + rate * l2), "accumulator": accum}


def adagrad_da(s, g, t, lr=0.5, l1=0.02, l2=0.3, steps=7):
    total, squares = s["gradient_accumulator"] + g, s["gradient_squared_accumulator"] + g * g
    var = -lr * shrunk(total, l1 * steps, l2 * steps * lr + np.sqrt(squares))
    return {"var": var, "gradient_accumulator": total, "gradient_squared_accumulator": squares}


train = af.train
CASES = {
    "descent": (lambda: train.GradientDescentOptimizer(0.1), descent, {}, {}),
    "momentum": (lambda: train.MomentumOptimizer(0.1, 0.9), momentum, {"momentum": 0}, {}),
    "nesterov": (
        lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), momentum, {"momentum": 0}, {"nesterov": True},
    ),
    "adagrad": (lambda: train.AdagradOptimizer(0.1, 0.2), adagrad, {"accumulator": 0.2}, {}),
    "adadelta": (lambda: train.AdadeltaOptimizer(0.5, 0.9, 1e-3), adadelta, {"accum": 0, "accum_update": 0}, {}),
    "rms_prop": (lambda: train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-2), rms_prop, {"rms": 1, "momentum": 0}, {}),
    "centered rms_prop": (
        lambda: train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-2, centered=True), rms_prop,
        {"rms": 1, "mg": 0, "momentum": 0}, {"centered": True},
    ),
    "adam": (lambda: train.AdamOptimizer(0.1, 0.8, 0.95, 1e-3), adam, {"m": 0, "v": 0}, {}),
    "adam_w": (lambda: train.AdamWOptimizer(0.5, 0.1, 0.8, 0.95, 1e-3), adam_w, {"m": 0, "v": 0}, {}),
    "adamax": (lambda: train.AdamaxOptimizer(0.1, 0.8, 0.95, 1e-3), adamax, {"m": 0, "u": 0}, {}),
    "nadam": (lambda: train.NadamOptimizer(0.1, 0.8, 0.95, 1e-3), nadam, {"m": 0, "v": 0}, {}),
    "lion": (lambda: train.LionOptimizer(0.1, 0.8, 0.95), lion, {"m": 0}, {}),
    "lamb": (lambda: train.LambOptimizer(0.1, 0.8, 0.95, 1e-3), lamb, {"m": 0, "v": 0}, {}),
    "ftrl": (lambda: train.FtrlOptimizer(0.5), ftrl, {"accum": 0.1, "linear": 0}, {}),
    "proximal descent": (lambda: train.ProximalGradientDescentOptimizer(0.5, 0.2, 0.3), proximal_descent, {}, {}),
    "proximal adagrad": (
        lambda: train.ProximalAdagradOptimizer(0.5, 0.3, 0.2, 0.3), proximal_adagrad, {"accumulator": 0.3}, {},
    ),
    "dual averaging": (
        lambda: train.AdagradDAOptimizer(0.5, 6, 0.3, 0.02, 0.3), adagrad_da,
        {"gradient_accumulator": 0, "gradient_squared_accumulator": 0.3}, {},
    ),
    "regularised ftrl": (
        lambda: train.FtrlOptimizer(0.5, -0.7, 0.2, 0.3, 0.1, l2_shrinkage_regularization_strength=0.05), ftrl,
        {"accum": 0.2, "linear": 0}, {"power": -0.7, "l1": 0.3, "l2": 0.1, "shrinkage": 0.05},
    ),
}  # fmt: skip
MOVES_ALL_ROWS = {"adam", "adam_w", "adamax", "nadam", "lion", "lamb"}


@pytest.fixture(params=CASES)
def case(request):
    return request.param


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def state_of(session, optimizer, var):
    slots = {name: optimizer.get_slot(var, name) for name in optimizer.get_slot_names()}
    return await session.run({"var": var, **slots})


def compare(ours, theirs, rtol):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize(("dtype", "rtol"), [(af.float64, 1e-12), (af.float32, 1e-5), (af.float16, 1e-2)])
async def test_a_dense_step_is_the_formula(graph, case, dtype, rtol):
    make, formula, slots, options = CASES[case]
    rng, optimizer = np.random.default_rng(1), make()
    start = rng.normal(size=(ROWS, COLUMNS))
    var, gradient = af.Variable(start, dtype=dtype), af.placeholder(dtype, [ROWS, COLUMNS])
    step = optimizer.apply_gradients([(gradient, var)])
    state = {"var": start, **{name: np.full_like(start, value) for name, value in slots.items()}}
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        for t in range(1, STEPS + 1):
            g = rng.normal(size=start.shape)
            await session.run(step, {gradient: g.astype(dtype.np)})
            state = formula(state, g, t, **options)
            compare(await state_of(session, optimizer, var), state, rtol)


@pytest.mark.parametrize("kept", [False, True])
async def test_a_sparse_step_is_the_formula_on_the_rows_it_names(graph, case, kept):
    make, formula, slots, options = CASES[case]
    rng, optimizer = np.random.default_rng(2), make()
    start = rng.normal(size=(ROWS, COLUMNS))
    var = af.Variable(start)
    values, indices = af.placeholder(af.float64, [None, COLUMNS]), af.placeholder(af.int32, [None])
    step = optimizer.apply_gradients([(af.IndexedSlices(values, indices), var)])
    state = {"var": start, **{name: np.full_like(start, value) for name, value in slots.items()}}
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        held = []
        for t, rows in enumerate([[1, 4, 1], [0], [5, 4, 3, 2], []], 1):
            g, dense = rng.normal(size=(len(rows), COLUMNS)), np.zeros_like(start)
            np.add.at(dense, rows, g)
            await session.run(step, {values: g, indices: rows})
            moved = np.full((ROWS, 1), case in MOVES_ALL_ROWS)
            moved[rows] = True
            after = formula(state, dense, t, **options)
            state = {name: np.where(moved, value, state[name]) for name, value in after.items()}
            found = await state_of(session, optimizer, var)
            held.append(found if kept else None)
            compare(found, state, 1e-12)


async def test_every_optimizer_updates_scalars_and_large_variables(graph, case, monkeypatch):
    monkeypatch.setattr("aioflow.kernels.nn.update.LARGE", 40)
    monkeypatch.setattr("aioflow.kernels.nn.update.BLOCK", 16)
    make, formula, slots, options = CASES[case]
    optimizer = make()
    starts = [np.float64(0.5), np.linspace(-1, 1, 99).reshape(33, 3)]
    variables = [af.Variable(start) for start in starts]
    gradients = [af.constant(np.cos(start)) for start in starts]
    step = optimizer.apply_gradients(zip(gradients, variables, strict=True))
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(step)
        for start, var in zip(starts, variables, strict=True):
            state = {"var": start, **{name: np.full_like(start, value) for name, value in slots.items()}}
            expected = formula(state, np.cos(start), 1, **options)
            compare(await state_of(session, optimizer, var), expected, 1e-12)


@pytest.mark.parametrize("sizes", [(), (5,), (6, 3), (2, 3, 4)])
async def test_adafactor_keeps_means_of_rows_and_columns(graph, sizes):
    rng, optimizer = np.random.default_rng(3), af.train.AdafactorOptimizer(0.1, -0.7, 1e-9, 0.2, 0.8)
    start = rng.normal(size=sizes)
    var, gradient = af.Variable(start), af.placeholder(af.float64, sizes)
    step = optimizer.apply_gradients([(gradient, var)])
    state = {"var": start, "v": np.zeros(sizes)}
    if len(sizes) > 1:
        state |= {"rows": np.zeros(sizes[:-1]), "columns": np.zeros((*sizes[:-2], sizes[-1]))}
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        for t in range(1, STEPS + 1):
            g = rng.normal(size=sizes)
            await session.run(step, {gradient: g})
            state = adafactor(state, g, t)
            compare(await state_of(session, optimizer, var), state, 1e-12)
    table = af.Variable(np.ones((3, 2)))
    whole = optimizer.apply_gradients([(af.IndexedSlices(np.ones((1, 2)), [1]), table)])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(whole)
        assert np.array_equal(await session.run(table) < 1, [[False] * 2, [True] * 2, [False] * 2])


@pytest.mark.parametrize("name", ["Adafactor", "Adamax", "Lamb", "Lion", "Nadam"])
async def test_a_gradient_of_another_shape_changes_nothing(graph, name):
    var, gradient = af.Variable([1.0, 2.0]), af.placeholder(af.float32)
    optimizer = getattr(af.train, f"{name}Optimizer")()
    step = optimizer.apply_gradients([(gradient, var)])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        before = await session.run(optimizer.variables())
        with pytest.raises(af.errors.InvalidArgumentError, match=r"\[1\]"):
            await session.run(step, {gradient: [3.0]})
        for one, other in zip(before, await session.run(optimizer.variables()), strict=True):
            np.testing.assert_array_equal(one, other)


async def test_every_optimizer_makes_a_loss_smaller(graph, case):
    w, table = af.Variable([1.0, -2.0]), af.Variable(np.ones((5, 2), np.float32))
    rows = table.sparse_read([1, 3, 1])
    loss = af.reduce_sum(w * w) + af.reduce_sum(rows * rows)
    step = af.train.get_or_create_global_step()
    minimize = CASES[case][0]().minimize(loss, global_step=step)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        losses = [(await session.run([loss, minimize]))[0] for _ in range(10)]
        assert losses[0] == 11.0
        assert losses[-1] < losses[0]
        assert await session.run(step) == 10
        decayed = (await session.run(table))[0].tolist() != [1.0, 1.0]
        assert decayed == (case == "adam_w")  # by itself, without a gradient


# Numbers


async def test_a_learning_rate_may_be_a_number_a_tensor_a_variable_or_a_function(graph):
    rate = af.Variable(0.5)
    given = [0.5, af.constant(0.5, af.float64), rate, lambda: 0.5, lambda: rate * 1.0]
    variables = [af.Variable([1.0], dtype=af.float64) for _ in given]
    steps = [
        af.train.GradientDescentOptimizer(number).apply_gradients([(af.constant([1.0], af.float64), var)])
        for number, var in zip(given, variables, strict=True)
    ]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(steps)
        assert [value.tolist() for value in await session.run(variables)] == [[0.5]] * len(given)
        await session.run(rate.assign(1.0))
        await session.run(steps)
        assert [value.tolist() for value in await session.run(variables)] == [[0.0], [0.0], [-0.5], [0.0], [-0.5]]


async def test_one_optimizer_serves_variables_of_several_dtypes(graph):
    a, b = af.Variable([1.0]), af.Variable([1.0], dtype=af.float64)
    optimizer = af.train.AdamOptimizer(0.1)
    step = optimizer.minimize(af.reduce_sum(a * a) + af.cast(af.reduce_sum(b * b), af.float32))
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(step)
        values = await session.run([a, b])
    np.testing.assert_allclose(values, [[0.9], [0.9]], rtol=1e-6)
    assert [value.dtype for value in values] == [np.float32, np.float64]


# What is built


def test_names_are_those_of_tensorflow(graph):
    w = af.Variable([1.0], name="w")
    with graph.name_scope("model"):
        b = af.Variable([1.0], name="b")
    optimizer = af.train.AdamOptimizer()
    step = af.train.create_global_step()
    with graph.name_scope("training"):
        train = optimizer.minimize(af.reduce_sum(w * b), global_step=step)
    names = [variable.op.name for variable in optimizer.variables()]
    assert names == [
        "model/b/Adam", "model/b/Adam_1", "training/beta1_power", "training/beta2_power", "w/Adam", "w/Adam_1",
    ]  # fmt: skip
    assert train.name == "training/Adam"
    assert graph.get_operation_by_name("training/Adam/update_model/b/apply_adam")
    assert graph.get_tensor_by_name("training/Adam/learning_rate:0").dtype is af.float32
    assert graph.get_collection(af.GraphKeys.TRAIN_OP) == [train]
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(w, "m").name == "w/Adam:0"
    assert optimizer.get_slot(w, "accum") is None
    assert af.trainable_variables() == [w, b]


def test_slots_are_beside_their_variable(graph):
    with graph.device("/gpu:1"), graph.container("box"):
        w = af.Variable([1.0], name="w")
    with graph.device("/cpu:0"), graph.control_dependencies([af.no_op()]):
        optimizer = af.train.MomentumOptimizer(0.1, 0.9)
        optimizer.apply_gradients([([1.0], w)])
    slot = optimizer.get_slot(w, "momentum")
    assert (slot.op.colocation, slot.op.attrs["container"], slot.op.control_inputs) == (("w",), "box", ())
    update = next(op for op in graph.get_operations() if op.type == "apply_momentum")
    assert update.colocation == ("w",)


async def test_slots_of_a_variable_of_open_shape_take_its_shape(graph):
    w = af.Variable(af.placeholder_with_default([1.0, 2.0], [None]), validate_shape=False)
    slot = create_slot(w, [0.0], "mine")
    assert slot.name == "Variable/mine:0"
    optimizer = af.train.AdagradOptimizer(1.0, 3.0)
    step = optimizer.apply_gradients([(w.value(), w)])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert (await session.run(optimizer.get_slot(w, "accumulator"))).tolist() == [3.0, 3.0]
        await session.run(step)
        np.testing.assert_allclose(await session.run(w), [0.5, 2 - 2 / np.sqrt(7)])


async def test_the_loss_fetched_with_a_step_is_from_before_it_and_the_count_comes_after(graph):
    w, step = af.Variable(1.0), af.train.create_global_step()
    loss = w * w
    train = af.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
    with graph.control_dependencies([train]):
        after = [w.value(), step.value()]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        assert await session.run([loss, train, *after, step]) == [1.0, None, 0.5, 1, 0]


async def test_a_constraint_holds_after_each_update(graph):
    w = af.Variable([1.0, -1.0], constraint=lambda variable: af.maximum(variable, 0.0))
    train = af.train.GradientDescentOptimizer(1.0).apply_gradients([([0.5, 0.5], w)])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(train)
        assert (await session.run(w)).tolist() == [0.5, 0.0]


async def test_gradients_can_be_changed_before_they_are_applied_and_none_is_left_out(graph):
    a, b = af.Variable([3.0]), af.Variable([1.0])
    optimizer = af.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(af.reduce_sum(a * a), [a, b], gate_gradients=optimizer.GATE_GRAPH)
    assert [(gradient is None, variable) for gradient, variable in pairs] == [(False, a), (True, b)]
    train = optimizer.apply_gradients([(g if g is None else af.minimum(g, 1.0), v) for g, v in pairs])
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(train)
        assert [value.tolist() for value in await session.run([a, b])] == [[2.0], [1.0]]


def test_a_counter_that_the_loss_does_not_depend_on_does_not_hinder(graph):
    w, counter = af.Variable([1.0, 2.0], name="w"), af.Variable(0, name="counter")
    pairs = af.train.GradientDescentOptimizer(0.1).compute_gradients(af.reduce_sum(w))
    assert [(gradient is None, variable) for gradient, variable in pairs] == [(False, w), (True, counter)]


async def test_gated_gradients_may_be_slices(graph):
    table, w = af.Variable(np.ones((3, 2))), af.Variable(np.ones(2))
    loss = af.reduce_sum(table.sparse_read([1]) * w)
    optimizer = af.train.GradientDescentOptimizer(1.0)
    train = optimizer.minimize(loss, gate_gradients=optimizer.GATE_GRAPH)
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(train)
        assert (await session.run(table)).tolist() == [[1, 1], [0, 0], [1, 1]]


async def test_users_write_optimizers_of_their_own(graph):
    class Signs(af.train.Optimizer):
        def __init__(self, rate):
            super().__init__(False, "Signs")
            self._rate = rate

        def _create_slots(self, var_list):
            for var in var_list:
                self._zeros_slot(var, "count", "Count")

        def _prepare(self):
            self._tensor = af.convert_to_tensor(self._call_if_callable(self._rate), name="rate")

        def _apply_dense(self, grad, var):
            counted = self.get_slot(var, "count").assign_add(af.ones_like(grad))
            with af.control_dependencies([counted]):
                return var.assign_sub(self._tensor * af.sign(grad))

    w, table = af.Variable([1.0, -1.0]), af.Variable([1.0, 1.0])
    optimizer = Signs(lambda: 0.25)
    train = optimizer.minimize(af.reduce_sum(w * w))
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        await session.run(train)
        assert (await session.run(w)).tolist() == [0.75, -0.75]
        assert (await session.run(optimizer.get_slot(w, "count"))).tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError, match="Signs has no sparse update"):
        optimizer.minimize(af.reduce_sum(table.sparse_read([0])), var_list=[table])
    assert optimizer.get_slot(table, "count") is None


# What is refused


def loss_of(w):
    return af.reduce_sum(w * w)


OPTIMIZER = af.train.GradientDescentOptimizer(0.1)
REFUSED = {
    "no variables": (lambda w: OPTIMIZER.minimize(loss_of(w), var_list=[]), ValueError, "no variables to optimize"),
    "an unrelated loss": (
        lambda w: OPTIMIZER.minimize(af.constant(1.0, name="loss")), ValueError,
        "'loss:0' has no gradient for any of the variables 'w:0'",
    ),
    "a loss of integers": (lambda w: OPTIMIZER.minimize(af.constant(1)), ValueError, "int32; an optimizer needs"),
    "a variable of integers": (
        lambda w: OPTIMIZER.minimize(loss_of(w), var_list=[af.Variable(1, name="i")]), ValueError,
        "no gradient for any of the variables 'i:0'",
    ),
    "a gate that is none": (lambda w: OPTIMIZER.minimize(loss_of(w), gate_gradients=3), ValueError, "GATE_NONE"),
    "a function for a loss": (lambda w: OPTIMIZER.compute_gradients(lambda: 0.0), TypeError, "must be a tensor"),
    "no pairs": (lambda w: OPTIMIZER.apply_gradients([]), ValueError, "no gradients and variables"),
    "no gradients": (lambda w: OPTIMIZER.apply_gradients([(None, w)]), ValueError, "no gradient for any .* 'w:0'"),
    "text for a gradient": (lambda w: OPTIMIZER.apply_gradients([(object(), w)]), TypeError, "a gradient is a tensor"),
    "a tensor for a variable": (
        lambda w: OPTIMIZER.apply_gradients([([1.0, 2.0], w.value())]), TypeError, "only a variable can be updated",
    ),
    "a gradient of another shape": (
        lambda w: OPTIMIZER.apply_gradients([([1.0], w)]), ValueError, r"\[2\] and \[1\] are not compatible",
    ),
    "a gradient of another dtype": (lambda w: OPTIMIZER.apply_gradients([([1, 2], w)]), TypeError, "int32"),
    "a learning rate with axes": (
        lambda w: af.train.GradientDescentOptimizer([0.1, 0.2]).minimize(loss_of(w)), ValueError, "rank 0 is needed",
    ),
    "a constrained sparse update": (
        lambda w: OPTIMIZER.apply_gradients([(af.IndexedSlices([1.0], [0]), af.Variable([1.0], constraint=af.abs))]),
        RuntimeError, "constraint",
    ),
    "no name": (lambda w: af.train.Optimizer(False, ""), ValueError, "needs a name"),
    "an empty accumulator": (lambda w: af.train.AdagradOptimizer(0.1, 0.0), ValueError, "must be positive, not 0.0"),
    "an empty sum of squares": (lambda w: af.train.AdagradDAOptimizer(0.1, 0, 0.0), ValueError, "must be positive"),
    "an empty proximal accumulator": (
        lambda w: af.train.ProximalAdagradOptimizer(0.1, 0.0), ValueError, "must be positive, not 0.0",
    ),
    "no global step": (lambda w: af.train.AdagradDAOptimizer(0.1, None), ValueError, "needs the global_step"),
    "a positive power": (lambda w: af.train.FtrlOptimizer(0.1, 0.5), ValueError, "learning_rate_power"),
    "a negative strength": (
        lambda w: af.train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0), ValueError, "l1_regularization",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_optimized_is_refused_with_a_reason(graph, what):
    build, error, text = REFUSED[what]
    w = af.Variable([1.0, 2.0], name="w")
    with pytest.raises(error, match=text):
        build(w)
    assert [op for op in graph.get_operations() if op.type.startswith("apply") or op.name.startswith("gradients")] == []


def test_a_refused_update_leaves_no_slots(graph):
    w, optimizer = af.Variable([1.0, 2.0]), af.train.AdamOptimizer()
    with pytest.raises(ValueError, match="not compatible"):
        optimizer.apply_gradients([([1.0], w)])
    assert optimizer.variables() == []
    optimizer.apply_gradients([([1.0, 1.0], w)])
    assert optimizer.get_slot(w, "m").name == "Variable/Adam:0"


async def test_a_gradient_that_does_not_fit_in_a_run_changes_nothing(graph):
    w, gradient = af.Variable(np.ones((2, 2)), name="w"), af.placeholder(af.float64)
    steps = [CASES[name][0]().apply_gradients([(gradient, w)]) for name in CASES]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        for step in steps:
            with pytest.raises(
                af.errors.InvalidArgumentError, match=r"\[2\] does not fit 'w'|\[2\] and .*\s.*update_w"
            ):
                await session.run(step, {gradient: [1.0, 1.0]})
        assert (await session.run(w)).tolist() == [[1, 1], [1, 1]]


async def test_rows_that_do_not_fit_in_a_run_change_nothing(graph):
    w = af.Variable(np.ones((3, 2)), name="w")
    values, indices = af.placeholder(af.float64), af.placeholder(af.int32, [None])
    rows = af.IndexedSlices(values, indices)
    steps = [CASES[name][0]().apply_gradients([(rows, w)]) for name in CASES]
    async with af.Session(graph=graph) as session:
        await session.run(af.global_variables_initializer())
        before = await session.run(af.global_variables())
        for step in steps:
            with pytest.raises(
                af.errors.InvalidArgumentError, match=r"\[1, 3\] does not fit 'w'|\[3, 3\] and .*\s.*update_w"
            ):
                await session.run(step, {values: [[1.0, 1.0, 1.0]], indices: [0]})
        for ours, theirs in zip(await session.run(af.global_variables()), before, strict=True):
            np.testing.assert_array_equal(ours, theirs)


async def test_an_uninitialized_slot_is_named(graph):
    w = af.Variable([1.0], name="w")
    step = af.train.MomentumOptimizer(0.1, 0.9).apply_gradients([([1.0], w)])
    async with af.Session(graph=graph) as session:
        await session.run(w.initializer)
        with pytest.raises(af.errors.FailedPreconditionError, match="'w/Momentum' is not initialized"):
            await session.run(step)
        assert (await session.run(w)).tolist() == [1.0]


async def test_the_loss_and_the_variables_may_be_functions():
    with af.Graph().as_default() as graph:
        one, other = af.Variable(3.0), af.Variable(4.0)
        descent = af.train.GradientDescentOptimizer(0.5)
        step = descent.minimize(lambda: one * one + other, var_list=lambda: [one])
        pairs = descent.compute_gradients(lambda: one * other)
        start = af.global_variables_initializer()
    assert [variable for _, variable in pairs] == [one, other]
    async with af.Session(graph=graph) as session:
        await session.run(start)
        await session.run(step)
        assert await session.run([one, other]) == [0, 4]
