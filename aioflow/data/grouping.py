"""The methods of datasets that gather elements: by key, by length, by class, by what came before."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aioflow.data.calls import UserFunction
from aioflow.data.checks import positive
from aioflow.data.choice import checked_weights
from aioflow.data.dataset_base import DatasetBase
from aioflow.data.elements import as_element, map_leaves, open_shape, shapes_of, with_leaves
from aioflow.data.groups import Buckets, GroupByWindow
from aioflow.data.resample import Resample
from aioflow.data.scan import Scan, Unique

if TYPE_CHECKING:
    from aioflow.data.dataset import Dataset


class Grouping(DatasetBase):
    """Methods of `Dataset`. Where a stage holds elements, a saved position makes the elements before it anew."""

    def scan(self, initial_state: Any, scan_func: Callable[..., Any]) -> "Dataset":
        """Return a dataset of what a function makes of a state and each element, such as a running sum.

        Args:
            initial_state: the first state, with the structure of an element.
            scan_func: an ordinary or async function of a state and an element, which returns the next state and an
                element of the new dataset.
        """
        return self._followed_by(Scan(self.stage, UserFunction(scan_func, "scan_func"), as_element(initial_state)))

    def unique(self) -> "Dataset":
        """Return a dataset of the elements that no element before equals. It holds all of them."""
        return self._followed_by(Unique(self.stage))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Sequence[float],
        initial_dist: Sequence[float] | None = None,
        seed: int | None = None,
    ) -> "Dataset":
        """Return a dataset of pairs (class, element), some left out so that classes are as frequent as asked.

        Args:
            class_func: returns the number of the class of an element, from 0 on.
            target_dist: the wanted frequency of each class.
            initial_dist: the frequency of each class in this dataset; by default it is estimated on the way.
            seed: decides by chance which elements are left out; None for others in each iteration.
        """
        count, function = len(target_dist), UserFunction(class_func, "class_func")
        target = checked_weights(target_dist, count, "classes")
        initial = None if initial_dist is None else checked_weights(initial_dist, count, "classes")
        return self._followed_by(Resample(self.stage, function, target, initial, seed))

    def _shapes_of(self, window: "Dataset", shapes: Any) -> Any:
        """Return given shapes, or those of elements; with unknown sizes only, if a function decides the elements."""
        if shapes is not None:
            return with_leaves(window.element_spec, [open_shape(shape) for shape in shapes_of(shapes)])
        if self.stage.spec is None:
            return map_leaves(lambda spec: [None] * (spec.rank or 0), window.element_spec)
        return map_leaves(lambda spec: spec.shape, self.stage.spec)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
    ) -> "Dataset":
        """Return a dataset of the elements of the datasets that a function makes of windows with the same key.

        A window is complete when it has its size, or at the end of the data, by rising keys.

        Args:
            key_func: returns the key of an element, an integer.
            reduce_func: returns a dataset for a key and the dataset of a window.
            window_size: the number of elements of a window.
            window_size_func: returns that number for a key.

        Raises:
            ValueError: both `window_size` and `window_size_func` are given, or neither.
        """
        if (window_size is None) is (window_size_func is None):
            raise ValueError("group_by_window needs either window_size or window_size_func")
        size = positive(window_size, "window_size") if window_size is not None else None
        size_function = size or UserFunction(window_size_func or positive, "window_size_func")
        functions = UserFunction(key_func, "key_func"), UserFunction(reduce_func, "reduce_func")
        stage = GroupByWindow("group_by_window", self.stage, *functions, size_function, self._followed_by)
        return self._followed_by(stage)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
    ) -> "Dataset":
        """Return a dataset of batches of elements of similar lengths, so that little is padding.

        Args:
            element_length_func: returns the length of an element, an integer.
            bucket_boundaries: the rising lengths at which the next bucket begins.
            bucket_batch_sizes: the elements of a batch of each bucket, one more than boundaries.
            padded_shapes: see `padded_batch`.
            padding_values: see `padded_batch`.
            pad_to_bucket_boundary: whether unknown sizes become the largest length of the bucket, instead of the
                largest of the batch. No element may then be as long as the last boundary.
            no_padding: whether elements are stacked as they are, which needs equal lengths in a batch.
            drop_remainder: whether batches of fewer elements, at the end, are left out.
        """
        buckets = Buckets(bucket_boundaries, bucket_batch_sizes)

        def batch(bucket: Any, window: "Dataset") -> "Dataset":
            size = buckets.size(bucket)
            if no_padding:
                return window.batch(size, drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                shapes = buckets.shapes(bucket, self._shapes_of(window, padded_shapes))
            return window.padded_batch(size, shapes, padding_values, drop_remainder)

        length = UserFunction(element_length_func, "element_length_func")
        functions = length, UserFunction(batch, "batch"), UserFunction(buckets.size, "size")
        stage = GroupByWindow("bucket_by_sequence_length", self.stage, *functions, self._followed_by, buckets.of_length)
        return self._followed_by(stage)
