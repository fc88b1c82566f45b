"""Variables and what changes them: the value after the update."""

from collections.abc import Callable
from typing import Any

import numpy as np

from oracle.draw import COMPLEX, FLOAT, FLOATS, INTS, NUMBERS, Call, Draw, alike, call
from oracle.table import compare, differs

STATE = "a variable's history is no path"


def after(update: Callable[..., Any]) -> Callable[..., Any]:
    """The value of a variable that starts as the first tensor, after `update` of (library, variable, tensors)."""

    def run(lib: Any, start: Any, *tensors: Any, **attrs: Any) -> Any:
        variable = lib.Variable(start, dtype=start.dtype)
        with lib.control_dependencies([update(lib, variable, *tensors, **attrs)]):
            return variable.read_value()

    return run


def of(name: str) -> Callable[..., Any]:
    """The value after the update of that name."""
    return after(lambda lib, variable, *tensors, **attrs: getattr(lib, name)(variable, *tensors, **attrs))


for name in ("assign", "assign_add", "assign_sub"):
    compare(name, alike(2, *NUMBERS), of(name), gradient=STATE, ops=(f"{name}_variable", "variable", "read_variable"))


def rows(unique: bool, *dtypes: str, moderate: bool = False) -> Any:
    """A table, numbers of rows of it, and what goes there."""

    def drawn(d: Draw) -> Call:
        dtype, count, rest = d.dtype(*dtypes), d.integer(1, 4), d.shape(0, 2)
        ids = d.ids((d.integer(0, 4),), 0, count - 1)
        ids = np.unique(ids) if unique else ids
        updates = d.array(dtype, (len(ids), *rest), 1, 4)
        start = d.array(dtype, (count, *rest), *((-4, 4) if moderate else ()))
        return call(start, ids, updates)

    return drawn


for name in ("scatter_add", "scatter_sub", "scatter_mul", "scatter_div"):
    compare(name, rows(False, *FLOATS, *COMPLEX, *INTS), of(name), gradient=STATE, ops=f"{name}_variable", rtol=64)
for name in ("scatter_min", "scatter_max"):
    compare(name, rows(False, *FLOATS, *INTS), of(name), gradient=STATE, ops=f"{name}_variable")
compare("scatter_update", rows(True, *NUMBERS), of("scatter_update"), gradient=STATE, ops="scatter_update_variable")


EMPTY_ROWS = differs(
    "rows without elements are updated to no effect; TensorFlow refuses", lambda table, *arrays: not table.size
)


def places(d: Draw) -> Call:
    table, ids, updates = rows(True, *FLOATS, "int32", "int64")(d).arrays
    return call(table, ids[:, None], updates)


for name in ("scatter_nd_update", "scatter_nd_add", "scatter_nd_sub"):
    compare(name, places, of(name), gradient=STATE, ops=f"{name}_variable", differs=EMPTY_ROWS)


def sliced(d: Draw) -> Call:
    dtype, rest = d.dtype(*NUMBERS), d.shape(0, 2)
    return call(d.array(dtype, (6, *rest)), d.array(dtype, (2, *rest)), begin=d.integer(0, 2))


compare(
    "variable[...].assign",
    sliced,
    after(lambda lib, variable, value, begin: variable[begin : begin + 4 : 2].assign(value)),
    gradient=STATE,
    ops="assign_slice_variable",
)


def looked_up(lib: Any, table: Any, ids: Any) -> Any:
    return lib.nn.embedding_lookup(lib.Variable(table, dtype=table.dtype), ids)


compare(
    "nn.embedding_lookup of a variable",
    lambda d: call(*rows(False, *NUMBERS)(d).arrays[:2]),
    looked_up,
    gradient=STATE,
    ops="gather_variable",
)


def reported(lib: Any, x: Any) -> Any:
    lib.Variable(x, dtype=x.dtype)
    return lib.report_uninitialized_variables()


compare(
    "is_variable_initialized",
    alike(1, *FLOATS),
    lambda lib, x: lib.is_variable_initialized(lib.Variable(x, dtype=x.dtype)),
)


compare(
    "count_up_to",
    lambda d: call(d.array(d.pick("int32", "int64"), (), 0, 3), limit=d.integer(0, 4)),
    lambda lib, x, limit: lib.count_up_to(lib.Variable(x, dtype=x.dtype), limit),
    ops="count_up_to_variable",
)
compare("report_uninitialized_variables", alike(1, *FLOATS), reported, ops="is_variable_initialized")


# Optimizers: two steps of each on one gradient


def trained(make: Callable[[Any], Any], sparse: bool = False) -> Callable[..., Any]:
    """The variable after two steps."""

    def run(lib: Any, start: Any, *given: Any) -> Any:
        variable, optimizer = lib.Variable(start, dtype=start.dtype), make(lib.train)
        gradient = lib.IndexedSlices(given[1], given[0], start.shape.as_list()) if sparse else given[0]
        with lib.control_dependencies([optimizer.apply_gradients([(gradient, variable)])]):
            again = optimizer.apply_gradients([(lib.identity(gradient) if not sparse else gradient, variable)])
        with lib.control_dependencies([again]):
            return variable.read_value()

    return run


def dense(d: Draw) -> Call:
    return alike(2, *FLOAT, low=-2, high=2)(d)


def slices(d: Draw) -> Call:
    found = rows(False, *FLOAT, moderate=True)(d)
    return call(*found.arrays)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "gradient_descent": lambda train: train.GradientDescentOptimizer(0.125),
    "momentum": lambda train: train.MomentumOptimizer(0.125, 0.5),
    "momentum of Nesterov": lambda train: train.MomentumOptimizer(0.125, 0.5, use_nesterov=True),
    "adagrad": lambda train: train.AdagradOptimizer(0.125),
    "adam": lambda train: train.AdamOptimizer(0.125, 0.5, 0.75, 2**-20),
    "adadelta": lambda train: train.AdadeltaOptimizer(0.5, 0.75, 0.125),
    "rms_prop": lambda train: train.RMSPropOptimizer(0.125, 0.5, 0.5, 0.0625),
    "centered_rms_prop": lambda train: train.RMSPropOptimizer(0.125, 0.5, 0.5, 0.0625, centered=True),
    "ftrl": lambda train: train.FtrlOptimizer(0.125, l1_regularization_strength=0.125, l2_regularization_strength=0.25),
    "proximal_gradient_descent": lambda train: train.ProximalGradientDescentOptimizer(0.125, 0.125, 0.25),
    "proximal_adagrad": lambda train: train.ProximalAdagradOptimizer(0.125, 0.25, 0.125, 0.25),
    "adagrad_da": lambda train: train.AdagradDAOptimizer(0.125, np.int64(3), 0.25, 0.0625, 0.25),
    "ftrl_v2": lambda train: train.FtrlOptimizer(0.125, l2_shrinkage_regularization_strength=0.125),
}
for name, make in OPTIMIZERS.items():
    op = name.partition(" ")[0]
    compare(f"train.{name}", dense, trained(make), gradient=STATE, rtol=512, ops=f"apply_{op}")
    compare(
        f"train.{name} of rows",
        slices,
        trained(make, sparse=True),
        gradient=STATE,
        rtol=512,
        differs=EMPTY_ROWS
        if op in ("adagrad", "adagrad_da", "ftrl", "ftrl_v2", "proximal_adagrad", "proximal_gradient_descent")
        else (),
        ops=(f"sparse_apply_{op}", *(["deduplicate_rows"] if op == "adagrad" else [])),
    )
