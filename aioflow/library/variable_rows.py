"""Updates of single rows and elements of a variable, as methods."""

from aioflow.graph.convert import NumberLike, TensorLike
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.op import Op
from aioflow.graph.operation import Tensor
from aioflow.kernels.array import scatter as kernels
from aioflow.kernels.array.gather import gather_nd
from aioflow.kernels.state import variables as state


class RowUpdates:
    """The methods of a variable that update some of its rows or elements. Each returns the whole new value."""

    def read_value(self) -> Tensor:
        """Return its value at this place."""
        raise NotImplementedError

    def scatter(self, op: Op[Tensor], indices: NumberLike, updates: TensorLike, name: str | None = None) -> Tensor:
        """Return the new value, after one of the kernels' scatter ops on its rows `indices`."""
        raise NotImplementedError

    def _scatter(self, op: Op[Tensor], delta: IndexedSlices, name: str | None) -> Tensor:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"pass rows as af.IndexedSlices(values, indices), not {delta!r}")
        return self.scatter(op, delta.indices, delta.values, name)

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Set the rows `sparse_delta.indices` to `sparse_delta.values`. Returns the whole new value."""
        return self._scatter(state.scatter_update_variable, sparse_delta, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Add `sparse_delta` to its rows, repeated rows repeatedly. Returns the whole new value."""
        return self._scatter(state.scatter_add_variable, sparse_delta, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Subtract `sparse_delta` from its rows, repeated rows repeatedly. Returns the whole new value."""
        return self._scatter(state.scatter_sub_variable, sparse_delta, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Multiply its rows by `sparse_delta`, repeated rows repeatedly. Returns the whole new value."""
        return self._scatter(kernels.scatter_mul_variable, sparse_delta, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Divide its rows by `sparse_delta`, repeated rows repeatedly. Returns the whole new value."""
        return self._scatter(kernels.scatter_div_variable, sparse_delta, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Set its rows to the minimum of them and `sparse_delta`. Returns the whole new value."""
        return self._scatter(kernels.scatter_min_variable, sparse_delta, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Set its rows to the maximum of them and `sparse_delta`. Returns the whole new value."""
        return self._scatter(kernels.scatter_max_variable, sparse_delta, name)

    def scatter_nd_update(self, indices: NumberLike, updates: TensorLike, name: str | None = None) -> Tensor:
        """Set the elements at the positions along the last axis of `indices` to `updates`. Returns the new value."""
        return self.scatter(kernels.scatter_nd_update_variable, indices, updates, name)

    def scatter_nd_add(self, indices: NumberLike, updates: TensorLike, name: str | None = None) -> Tensor:
        """Add `updates` at the positions along the last axis of `indices`. Returns the new value."""
        return self.scatter(kernels.scatter_nd_add_variable, indices, updates, name)

    def scatter_nd_sub(self, indices: NumberLike, updates: TensorLike, name: str | None = None) -> Tensor:
        """Subtract `updates` at the positions along the last axis of `indices`. Returns the new value."""
        return self.scatter(kernels.scatter_nd_sub_variable, indices, updates, name)

    def gather_nd(self, indices: NumberLike, name: str | None = None) -> Tensor:
        """Return the elements or slices at the positions along the last axis of `indices`."""
        return gather_nd(self.read_value(), indices, name=name)
