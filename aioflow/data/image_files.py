"""`image_dataset_from_directory`: pictures of a folder, decoded and resized on threads, with labels, in batches."""

import logging
import math
import os
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.data.checks import AUTOTUNE, natural, positive, switch
from aioflow.data.dataset import Dataset
from aioflow.data.image_folders import Pictures, pictures_in
from aioflow.files.filesystem import Path, translate_errors
from aioflow.kernels.image import image_codecs
from aioflow.kernels.image.resize import INTERPOLATIONS, resized_image
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.input")
MOST_BYTES: Final = 400_000_000
"""The most bytes of a file: those of the largest picture that is decoded, without compression."""
CHANNELS: Final = {"grayscale": 1, "rgb": 3, "rgba": 4}


class ImageDataset(Dataset):
    """The pictures of a folder.

    Attributes:
        class_names: the names of the classes, in the order of their numbers.
        file_paths: the files, in the order of their names, or in that which `seed` decides.

    Examples:
        >>> import pathlib
        >>> folder = pathlib.Path("few", "red")
        >>> folder.mkdir(parents=True)
        >>> red = af.image.encode_png(np.array([[[255, 0, 0]]], np.uint8))
        >>> size = folder.joinpath("a.png").write_bytes(await session.run(red))
        >>> af.data.image_dataset_from_directory("few").class_names
        ['red']
    """

    def __init__(self, dataset: Dataset, pictures: Pictures) -> None:
        super().__init__(dataset.stage)
        self.class_names: Final = list(pictures.class_names)
        self.file_paths: Final = list(pictures.paths)


class _Form(NamedTuple):
    """How pictures are read."""

    height: int
    width: int
    channels: int
    interpolation: str
    crops: bool
    pads: bool
    channels_first: bool

    def read(self, path: Any) -> AnyArray:
        """The pixels of a file, as float32 from 0 to 255. OpError, with the name of the file, if that fails."""
        name = os.fsdecode(path)
        with translate_errors(name):
            if os.path.getsize(name) > MOST_BYTES:
                raise errors.InvalidArgumentError(f"{name}: a picture has at most {MOST_BYTES} bytes")
            with open(name, "rb") as file:
                data = file.read()
        try:
            shaped = self._padded(self._cropped(self._decoded(data)))
        except errors.OpError as error:
            error.message = f"{name}: {error.message}"
            raise
        resized = resized_image(shaped, self.height, self.width, self.interpolation)
        return np.ascontiguousarray(resized.transpose(2, 0, 1)) if self.channels_first else resized

    def _decoded(self, data: bytes) -> AnyArray:
        """The pixels; of an animation those of the first picture."""
        kind = image_codecs.kind_of(data)
        if kind is None:
            raise errors.InvalidArgumentError(f"neither PNG, JPEG, GIF nor BMP: the bytes begin with {data[:8]!r}")
        found = image_codecs.decoded(data, kind, self.channels)
        return found if found.dtype == np.uint8 else (found >> 8).astype(np.uint8)

    def _cropped(self, pixels: AnyArray) -> AnyArray:
        """The largest part in the middle with the proportions of the result, if it crops."""
        if not self.crops:
            return pixels
        height, width = pixels.shape[:2]
        kept = min(height, width * self.height // self.width) or 1, min(width, height * self.width // self.height) or 1
        top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
        return pixels[top : top + kept[0], left : left + kept[1]]

    def _padded(self, pixels: AnyArray) -> AnyArray:
        """The picture with equal black margins, to the proportions of the result, if it pads."""
        if not self.pads:
            return pixels
        height, width, channels = pixels.shape
        top = max(0, width * self.height // self.width - height) // 2
        left = max(0, height * self.width // self.height - width) // 2
        shape = height + 2 * top, width + 2 * left, channels
        if math.prod(shape) > MOST_BYTES:
            raise errors.InvalidArgumentError(
                f"margins would make {shape[0]}x{shape[1]} pixels of {height}x{width}, more than {MOST_BYTES} bytes"
            )
        found = np.zeros(shape, pixels.dtype)
        found[top : top + height, left : left + width] = pixels
        return found


def image_dataset_from_directory(
    directory: Path,
    labels: str | Sequence[int] | None = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Sequence[int] = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    *,
    skip_corrupt: bool = False,
) -> Any:
    """Return a dataset of the pictures in a folder, in PNG, JPEG, GIF or BMP files, with labels.

    It lists the files at once, and the iteration reads and decodes them on threads. It needs Pillow: `pip install
    aioflow-engine[image]`.

    Args:
        directory: a local folder. With `labels="inferred"` it has a folder for each class.
        labels: "inferred" for the names of folders; a number for each file in the order of their names; None for none.
        label_mode: "int" for int32 numbers, "categorical" for float32 rows with a 1 at the class, "binary" for float32
            rows with a 0 or a 1, None for pictures alone.
        class_names: the names of the folders in the order of their numbers; sorted by default.
        color_mode: "grayscale", "rgb" or "rgba": 1, 3 or 4 channels.
        batch_size: the pictures of a batch; None for single ones.
        image_size: the height and width to which pictures are resized.
        shuffle: whether the pictures come in a new random order in each iteration; else sorted by their names.
        seed: decides the order, and which pictures are for validation.
        validation_split: the part of the pictures that is for validation.
        subset: "training", "validation", or "both" for a pair of datasets; with `validation_split`.
        interpolation: "nearest", "bilinear", "bicubic" or "area".
        follow_links: whether links to folders are followed.
        crop_to_aspect_ratio: whether pictures of other proportions are cropped rather than distorted.
        pad_to_aspect_ratio: whether they get black margins.
        data_format: "channels_last", the default, or "channels_first".
        skip_corrupt: whether missing and broken files are left out, with a warning for each.

    Returns:
        A dataset of float32 pictures from 0 to 255, or of pairs of these and labels; `class_names` and `file_paths` are
        attributes of it.

    Raises:
        TypeError, ValueError: there is no such folder, no picture in it, or arguments do not fit.
        OpError: in the iteration: a file is missing or broken; the error has its name.

    Examples:
        >>> import pathlib
        >>> for name in ("dark", "light"):
        ...     folder = pathlib.Path("pictures", name)
        ...     folder.mkdir(parents=True)
        ...     grey = np.full([4, 4, 1], 200 if name == "light" else 10, np.uint8)
        ...     size = folder.joinpath("one.png").write_bytes(await session.run(af.image.encode_png(grey)))
        >>> dataset = af.data.image_dataset_from_directory("pictures", image_size=(2, 2), shuffle=False)
        >>> [(images[:, 0, 0, 0].tolist(), labels.tolist()) async for images, labels in dataset]
        [([10.0, 200.0], [0, 1])]
    """
    flags = {"shuffle": shuffle, "follow_links": follow_links, "skip_corrupt": skip_corrupt}
    shuffle, follow_links, skip_corrupt = [switch(value, name) for name, value in flags.items()]
    form = _form(color_mode, image_size, interpolation, crop_to_aspect_ratio, pad_to_aspect_ratio, data_format)
    _check_split(validation_split, subset, shuffle, None if seed is None else natural(seed, "seed"))
    pictures = pictures_in(directory, labels, label_mode, class_names, follow_links)
    mode = None if pictures.labels is None else label_mode
    if shuffle:
        order = np.random.RandomState(seed).permutation(len(pictures.paths)).tolist()
        pictures = pictures.of(order)
    parts = [
        _dataset(part, form, mode, batch_size, seed if shuffle else None, shuffle, skip_corrupt)
        for part in _subsets(pictures, validation_split, subset)
    ]
    return parts[0] if subset != "both" else (parts[0], parts[1])


def _dataset(
    pictures: Pictures, form: _Form, mode: str | None, batch_size: int | None, seed: int | None, shuffle: bool,
    skip_corrupt: bool,
) -> ImageDataset:  # fmt: skip
    paths = np.array([os.fsencode(path) for path in pictures.paths], object)
    dataset = Dataset.from_tensor_slices(paths if mode is None else (paths, pictures.encoded_labels(mode)))
    if shuffle:
        dataset = dataset.shuffle(len(paths), seed)

    def read(path: Any, *label: Any) -> Any:
        image = _read_or_warn(form, path) if skip_corrupt else form.read(path)
        return (image, *label) if label else image

    dataset = dataset.map(read, num_parallel_calls=AUTOTUNE)
    if skip_corrupt:
        dataset = dataset.filter(lambda image, *label: image.size > 0)
    if batch_size is not None:
        dataset = dataset.batch(batch_size).prefetch(1)
    return ImageDataset(dataset, pictures)


def _read_or_warn(form: _Form, path: Any) -> AnyArray:
    """The pixels of a file; none, after a warning, if it is missing or broken."""
    try:
        return form.read(path)
    except (errors.InvalidArgumentError, errors.NotFoundError) as error:
        _log.warning("a picture is left out: %s", error.message)
        return np.zeros((0, 0, form.channels), np.float32)


def _subsets(pictures: Pictures, split: float | None, subset: str | None) -> list[Pictures]:
    """The pictures of the wanted parts; ValueError if a part is empty."""
    if split is None:
        return [pictures]
    count = len(pictures.paths)
    kept = count - int(split * count)
    if not 0 < kept < count:
        raise ValueError(f"validation_split {split} of {count} pictures leaves none on one side")
    parts = {"training": pictures.of(range(kept)), "validation": pictures.of(range(kept, count))}
    return list(parts.values()) if subset == "both" else [parts[str(subset)]]


def _check_split(split: float | None, subset: str | None, shuffle: bool, seed: int | None) -> None:
    """Raise ValueError unless both are given, or none, and the same pictures are for validation in each call."""
    if (split is None) is not (subset is None):
        raise ValueError("validation_split and subset are given together")
    if split is None:
        return
    if not isinstance(split, Real) or not 0 < split < 1:
        raise ValueError(f"validation_split is a number of more than 0 and less than 1, not {safe_repr(split)}")
    if subset not in ("training", "validation", "both"):
        raise ValueError(f"subset is 'training', 'validation' or 'both', not {safe_repr(subset)}")
    if shuffle and seed is None and subset != "both":
        raise ValueError(
            "give a seed, so that the pictures for training are not those for validation, or shuffle=False"
        )


def _form(
    color_mode: str, image_size: Sequence[int], interpolation: str, crops: bool, pads: bool, data_format: str | None
) -> _Form:
    """How pictures are read. ValueError for arguments that do not fit."""
    if color_mode not in list(CHANNELS):
        raise ValueError(f"color_mode is one of {', '.join(CHANNELS)}, not {safe_repr(color_mode)}")
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"interpolation is one of {', '.join(INTERPOLATIONS)}, not {safe_repr(interpolation)}")
    if data_format not in (None, "channels_last", "channels_first"):
        raise ValueError(f"data_format is 'channels_last' or 'channels_first', not {safe_repr(data_format)}")
    crops, pads = switch(crops, "crop_to_aspect_ratio"), switch(pads, "pad_to_aspect_ratio")
    if crops and pads:
        raise ValueError("pictures are cropped or padded to their proportions, not both")
    if not isinstance(image_size, (list, tuple)) or len(image_size) != 2:
        raise ValueError(f"image_size is a height and a width, not {safe_repr(image_size)}")
    height, width = (positive(size, "image_size") for size in image_size)
    return _Form(height, width, CHANNELS[color_mode], interpolation, crops, pads, data_format == "channels_first")
