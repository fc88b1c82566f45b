"""First values of variables: objects that are called with a shape and a dtype and give a tensor."""

from collections.abc import Callable
from typing import Any

import numpy as np

from aioflow import dtypes
from aioflow.dtypes import DType, as_dtype
from aioflow.kernels.constants import constant
from aioflow.kernels.filling import fill
from aioflow.node import Tensor


class Initializer:
    """Makes first values. A subclass defines `__call__`."""

    dtype: DType = dtypes.float32

    def __call__(self, shape: Any, dtype: Any = None, partition_info: None = None) -> Tensor:
        """A tensor of that shape, and of that dtype or else the initializer's."""
        raise NotImplementedError

    def _dtype(self, dtype: Any) -> DType:
        return self.dtype if dtype is None else as_dtype(dtype)


class Constant(Initializer):
    """One value everywhere, or the values of an array or list, the last of them repeated."""

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        self.value = value
        self.dtype = as_dtype(dtype)
        self._verify = verify_shape

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: None = None, verify_shape: bool | None = None
    ) -> Tensor:
        """A tensor of that shape, and of that dtype or else the initializer's."""
        wanted = self._dtype(dtype)
        if np.ndim(self.value) == 0:
            return fill(shape, constant(self.value, wanted))
        return constant(self.value, wanted, shape, verify_shape=self._verify if verify_shape is None else verify_shape)


class Zeros(Constant):
    """Zero everywhere; false, or empty, for bools and strings."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        super().__init__(0, dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: None = None, verify_shape: Any = None) -> Tensor:
        """A tensor of that shape, and of that dtype or else the initializer's."""
        wanted = self._dtype(dtype)
        return fill(shape, constant("" if wanted is dtypes.string else False if wanted.is_bool else 0, wanted))


class Ones(Constant):
    """One everywhere; true for bools."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        super().__init__(1, dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: None = None, verify_shape: Any = None) -> Tensor:
        """A tensor of that shape, and of that dtype or else the initializer's."""
        wanted = self._dtype(dtype)
        return fill(shape, constant(True if wanted.is_bool else 1, wanted))


def default_for(dtype: DType) -> Callable[..., Tensor]:
    """What `get_variable` takes when it is given no initializer."""
    if dtype.is_floating:
        raise NotImplementedError
    if dtype.is_integer or dtype.is_bool:
        return Zeros(dtype)
    raise ValueError(f"a variable of dtype {dtype.name} needs an initializer")


zeros_initializer, ones_initializer, constant_initializer = Zeros, Ones, Constant
