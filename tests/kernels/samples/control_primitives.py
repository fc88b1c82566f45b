"""Samples of the primitives of control flow."""

import numpy as np

import aioflow as af
from tests.kernels.samples import sample

X = np.array([[0.5, -1.0, 2.0]])
YES, NO = np.array(True), np.array(False)

sample("switch", lambda x, p: af.switch(x, p)[0], X, NO, reference=lambda x, p: x, gradient=False)
sample("switch", lambda x, p: af.switch(x, p)[1], X, YES, reference=lambda x, p: x, gradient=False)
for _pred, _expected in ((YES, (X * X, 1)), (NO, (-X, 0))):
    sample(
        "merge",
        lambda x, p: af.merge([af.negative(af.switch(x, p)[0]), af.square(af.switch(x, p)[1])]),
        X,
        _pred,
        reference=lambda x, p, expected=_expected: expected,
        gradient=False,
    )
sample("merge", lambda x, y: af.merge([x, y])[0], X, X.T, reference=lambda x, y: x, gradient=False)
sample("enter", lambda x: af.enter(x, "frame"), X, reference=lambda x: x, gradient=False)
sample("enter", lambda x: af.enter(x, "frame", is_constant=True), X, reference=lambda x: x, gradient=False)
sample("exit", lambda x: af.exit(af.enter(x, "frame")), X, reference=lambda x: x, gradient=False)
sample("next_iteration", af.next_iteration, X, reference=lambda x: x, gradient=False)
sample("loop_cond", af.loop_cond, YES, reference=lambda p: p, gradient=False)
sample("control_trigger", af.control_trigger)
