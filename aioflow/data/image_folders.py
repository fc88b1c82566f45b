"""Pictures in folders: their files, in a fixed order, and their labels by the names of folders."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.data.checks import integer
from aioflow.files.filesystem import Path, as_name
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.recursion import safe_repr

EXTENSIONS: Final = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
"""The ends of the names of pictures."""
MOST_CLASSES: Final = 100_000
"""The most classes of labels that are given as numbers: each class gets a name."""
LABEL_MODES: Final = ("int", "categorical", "binary", None)


class Pictures(NamedTuple):
    """The pictures of a folder.

    Attributes:
        paths: their files.
        labels: the number of the class of each; None without labels.
        class_names: the names of the classes, in the order of their numbers.
    """

    paths: Sequence[str]
    labels: Sequence[int] | None
    class_names: Sequence[str]

    def of(self, numbers: Sequence[int]) -> "Pictures":
        """Those of these numbers, in this order."""
        labels = None if self.labels is None else [self.labels[number] for number in numbers]
        return Pictures([self.paths[number] for number in numbers], labels, self.class_names)

    def encoded_labels(self, mode: str) -> AnyArray:
        """The labels as int32, as rows with a 1 at the class, or as rows with a 0 or a 1, for the three modes."""
        numbers = np.array(self.labels, np.int32)
        if mode == "int":
            return numbers
        if mode == "binary":
            return numbers.astype(np.float32)[:, None]
        chosen: AnyArray = (numbers[:, None] == np.arange(len(self.class_names))).astype(np.float32)
        return chosen


def pictures_in(
    directory: Path, labels: Any, label_mode: str | None, class_names: Sequence[str] | None, follow_links: bool
) -> Pictures:
    """The pictures of a folder in the order of their names, those of each class after those of the one before.

    TypeError or ValueError if there are none, or labels do not fit.
    """
    root = as_name(directory)
    if not os.path.isdir(root):
        raise ValueError(f"there is no folder {root!r}")
    inferred = isinstance(labels, str) and labels == "inferred"
    if class_names is not None and not inferred:
        raise ValueError("class_names are for labels='inferred', which are the names of folders")
    if label_mode not in LABEL_MODES:
        raise ValueError(f"label_mode is 'int', 'categorical', 'binary' or None, not {safe_repr(label_mode)}")
    if inferred and label_mode is not None:
        found = _by_folder(root, class_names, follow_links)
    else:
        found = _listed(root, None if label_mode is None else labels, follow_links)
    if not found.paths:
        raise ValueError(f"there are no pictures in {root!r}: their names end in {', '.join(EXTENSIONS)}")
    if label_mode == "binary" and found.labels is not None and len(found.class_names) != 2:
        raise ValueError(f"label_mode='binary' is for 2 classes, and there are {len(found.class_names)}")
    return found


def _by_folder(root: str, class_names: Sequence[str] | None, follow_links: bool) -> Pictures:
    folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    names = folders if class_names is None else list(class_names)
    if sorted(names) != folders:
        raise ValueError(f"class_names are {safe_repr(names)}, and the folders in {root!r} are {safe_repr(folders)}")
    paths, labels = list[str](), list[int]()
    for number, name in enumerate(names):
        found = list(_files(os.path.join(root, name), follow_links))
        paths += found
        labels += [number] * len(found)
    return Pictures(paths, labels, names)


def _listed(root: str, labels: Any, follow_links: bool) -> Pictures:
    """All pictures, with a label for each if `labels` has them."""
    paths = list(_files(root, follow_links))
    if labels is None:
        return Pictures(paths, None, [])
    if not isinstance(labels, (list, tuple, np.ndarray)):
        raise TypeError(
            f"labels is 'inferred', None, or a list with a number for each picture, not {safe_repr(labels)}"
        )
    numbers = [integer(label, "a label") for label in labels]
    if len(numbers) != len(paths):
        raise ValueError(f"there are {len(numbers)} labels, and {len(paths)} pictures in {root!r}")
    for number in numbers:
        if not 0 <= number < MOST_CLASSES:
            raise ValueError(f"labels are the numbers of classes, from 0 to {MOST_CLASSES - 1}, not {number}")
    return Pictures(paths, numbers, [str(number) for number in range(max(numbers, default=-1) + 1)])


def _files(folder: str, follow_links: bool) -> Iterator[str]:
    """The pictures in a folder and in those below it, folder by folder, each in the order of names.

    A folder to which links lead back is listed once. Pipes, devices and other special files are left out.
    """
    seen, found = set[str](), list[tuple[str, list[str]]]()
    for place, folders, files in os.walk(folder, followlinks=follow_links):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        found.append((place, files))
    for place, files in sorted(found):
        for name in sorted(files):
            path = os.path.join(place, name)
            if name.lower().endswith(EXTENSIONS) and os.path.isfile(path):
                yield path
