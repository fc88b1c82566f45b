"""CuPy's ElementwiseKernel for fake GPUs: the lines of `gpu_chains` are such that Python can read them, too."""

import functools

import numpy as np

from aioflow.testing.fake_namespace import FakeFunction

OF_C = {
    "T": lambda value: value, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "expm1": np.expm1, "fabs": np.fabs,
    "floor": np.floor, "log": np.log, "log1p": np.log1p, "select": np.where, "sin": np.sin, "sqrt": np.sqrt,
    "tanh": np.tanh,
}  # fmt: skip


def install(gpu):
    """The fake GPU's namespace has it from here on."""
    gpu.xp.ElementwiseKernel = functools.partial(ElementwiseKernel, gpu.driver.machine)


class ElementwiseKernel(FakeFunction):
    def __init__(self, machine, taken, given, lines, name, *, preamble):
        self._taken = [part.split()[1] for part in taken.split(", ")]
        self._given = [part.split()[1] for part in given.split(", ")]
        self._lines = [line.removeprefix("T ").removesuffix(";").split(" = ", 1) for line in lines.splitlines()]
        super().__init__(machine, name, self._compute)

    def _compute(self, *arrays):
        values = dict(zip(self._taken, arrays, strict=True))
        for target, text in self._lines:
            values[target] = eval(text, {"__builtins__": {}, **OF_C}, values)
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        made = [np.array(np.broadcast_to(values[name], shape)) for name in self._given]
        return made[0] if len(made) == 1 else tuple(made)
