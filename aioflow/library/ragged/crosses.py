"""Crosses of features in rows: all ways to take one value from each of several inputs, row by row."""

from collections.abc import Sequence

from aioflow.graph.building import transactional
from aioflow.graph.operation import Tensor
from aioflow.library.control import name_scope
from aioflow.library.ragged.tensor import RaggedTensor
from aioflow.library.sparse_crosses import Feature, crossed, crossed_numbers


@transactional
def cross(inputs: Sequence[Feature], name: str | None = None) -> RaggedTensor:
    """The values of each row of the inputs crossed: one text for each way to take one value from each input.

    Args:
        inputs: tensors, RaggedTensors or SparseTensors [batch, values] of strings or integers.
        name: the name scope.

    Raises:
        InvalidArgumentError: in the run: the inputs have different numbers of rows.

    Examples:
        >>> crosses = af.ragged.cross([af.ragged.constant([["a"], ["b", "c"]]), [["d"], ["e"]]])
        >>> (await session.run(crosses)).to_list()
        [[b'a_X_d'], [b'b_X_e', b'c_X_e']]
    """
    with name_scope(name, "RaggedCross"):
        return _rows_of(*crossed(inputs))


@transactional
def cross_hashed(
    inputs: Sequence[Feature], num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> RaggedTensor:
    """The values of each row of the inputs crossed: one number for each way to take one value from each input.

    Args:
        inputs: tensors, RaggedTensors or SparseTensors [batch, values] of strings or integers.
        num_buckets: the numbers are from 0 to `num_buckets - 1`; below 2^63 - 1 if it is 0.
        hash_key: an integer, on which the numbers depend; TensorFlow's default one if None.
        name: the name scope.

    Raises:
        InvalidArgumentError: in the run: the inputs have different numbers of rows.

    Examples:
        >>> words = af.ragged.constant([["a"], ["b", "c"]])
        >>> crosses = af.ragged.cross_hashed([words, af.ragged.constant([["d"], ["e"]])], num_buckets=100)
        >>> (await session.run(crosses)).to_list()
        [[82], [61, 41]]
    """
    with name_scope(name, "RaggedCrossHashed"):
        return _rows_of(*crossed_numbers(inputs, num_buckets, hash_key))


def _rows_of(indices: Tensor, values: Tensor, sizes: Tensor) -> RaggedTensor:
    """Return the rows of a sparse matrix without gaps."""
    return RaggedTensor.from_value_rowids(values, indices[:, 0], sizes[0], validate=False)
