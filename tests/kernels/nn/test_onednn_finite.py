"""One element that is not finite is found wherever it is."""

import numpy as np
import pytest

from aioflow.devices import onednn
from aioflow.kernels.nn.onednn_finite import SMALL, is_finite
from tests.support.onednn import needs_library


@needs_library
@pytest.mark.parametrize("shape", [(2 * SMALL,), (SMALL // 16, 48), (SMALL + 1,), (3,)])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_not_finite_is_found(shape, odd):
    lib = onednn.library()
    x = np.random.default_rng(0).uniform(-3e36, 3e36, shape).astype(np.float32)
    assert is_finite(lib, x)
    assert is_finite(lib, x.T)
    for place in (0, x.size // 2, x.size - 1):
        y = x.copy()
        y.reshape(-1)[place] = odd
        assert not is_finite(lib, y)
        assert not is_finite(lib, y.T)
