"""Pictures of a folder as a dataset: labels, sizes, order, parts for validation, and broken files."""

import logging
import os
import pathlib

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.data import image_dataset_from_directory
from aioflow.data.image_files import MOST_BYTES

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    """Pictures of 6 x 9 pixels: two of class ant, three of class bee, one of them in a folder below."""
    for name, grey in (
        ("ant/0.png", 0),
        ("ant/1.BMP", 10),
        ("bee/0.gif", 100),
        ("bee/1.png", 110),
        ("bee/x/2.jpeg", 120),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 9, 3), grey, np.uint8)).save(path)
    (tmp_path / "bee" / "notes.txt").write_text("no picture")
    return tmp_path


async def elements(dataset):
    return [element async for element in dataset]


def ordered(folder, **options):
    return image_dataset_from_directory(folder, **{"shuffle": False, "image_size": (2, 3)} | options)


async def test_labels_are_the_numbers_of_folders_in_the_order_of_their_names(folder):
    dataset = ordered(folder, batch_size=3)
    assert dataset.class_names == ["ant", "bee"]
    names = ["ant/0.png", "ant/1.BMP", "bee/0.gif", "bee/1.png", "bee/x/2.jpeg"]
    assert [pathlib.Path(path).relative_to(folder).as_posix() for path in dataset.file_paths] == names
    (first, numbers), (last, others) = await elements(dataset)
    assert first.dtype == np.float32
    assert first.shape == (3, 2, 3, 3)
    assert last.shape == (2, 2, 3, 3)
    np.testing.assert_allclose([*first[:, 1, 2, 1], *last[:, 1, 2, 1]], [0, 10, 100, 110, 120])
    assert numbers.dtype == np.int32
    assert [*numbers, *others] == [0, 0, 1, 1, 1]
    turned = ordered(folder, class_names=["bee", "ant"], batch_size=None)
    assert [int(label) for _, label in await elements(turned)] == [0, 0, 0, 1, 1]


async def test_labels_have_the_form_of_their_mode(folder):
    for mode, wanted in (("binary", [[0.0], [1.0]]), ("categorical", [[1.0, 0.0], [0.0, 1.0]])):
        ((_, labels),) = await elements(ordered(folder, label_mode=mode))
        np.testing.assert_array_equal(labels, np.array(wanted, np.float32)[[0, 0, 1, 1, 1]])
    (images,) = await elements(ordered(folder, labels=None))
    assert images.shape == (5, 2, 3, 3)
    given = ordered(folder, labels=[2, 0, 1, 1, 0], label_mode="categorical")
    ((_, labels),) = await elements(given)
    np.testing.assert_array_equal(labels.argmax(1), [2, 0, 1, 1, 0])


async def test_pictures_have_the_channels_the_size_and_the_proportions_that_are_wanted(tmp_path):
    pixels = np.arange(4 * 8, dtype=np.uint8).reshape(4, 8) * 7
    Image.fromarray(pixels).save(tmp_path / "one.png")
    options = {"labels": None, "color_mode": "grayscale", "batch_size": None}

    async def only(height, width, **others):
        (image,) = await elements(ordered(tmp_path, image_size=(height, width), **options | others))
        return image[..., 0]

    np.testing.assert_array_equal(await only(4, 8), pixels)
    np.testing.assert_array_equal(await only(4, 4, crop_to_aspect_ratio=True), pixels[:, 2:6])
    padded = await only(8, 8, pad_to_aspect_ratio=True)
    np.testing.assert_array_equal(padded, np.pad(pixels, [(2, 2), (0, 0)]))
    np.testing.assert_array_equal(await only(2, 4, interpolation="nearest"), pixels[1::2, 1::2])
    np.testing.assert_array_equal(await only(2, 4, interpolation="area"), pixels.reshape(2, 2, 4, 2).mean((1, 3)))
    np.testing.assert_allclose(await only(2, 4), pixels.reshape(2, 2, 4, 2).mean((1, 3)))
    with af.Graph().as_default() as graph:
        wanted = af.image.resize_bicubic(pixels[None, ..., None], [5, 3], half_pixel_centers=True)
        async with af.Session(graph=graph) as session:
            expected = (await session.run(wanted))[0, ..., 0]
    np.testing.assert_allclose(await only(5, 3, interpolation="bicubic"), expected, rtol=1e-5)
    (image,) = await elements(ordered(tmp_path, **options | {"color_mode": "rgba", "data_format": "channels_first"}))
    assert image.shape == (4, 2, 3)
    assert (image[3] == 255).all()


async def test_a_seed_decides_the_order_and_which_pictures_are_for_validation(folder):
    def part(subset):
        return image_dataset_from_directory(folder, seed=3, validation_split=0.4, subset=subset, batch_size=None)

    kept, other = part("both")
    assert part("training").file_paths == kept.file_paths
    assert part("validation").file_paths == other.file_paths
    assert len(kept.file_paths) == 3
    assert sorted([*kept.file_paths, *other.file_paths]) == ordered(folder).file_paths
    labels = [[int(label) for _, label in await elements(each)] for each in (kept, other)]
    assert sorted(labels[0] + labels[1]) == [0, 0, 1, 1, 1]

    once = image_dataset_from_directory(folder, seed=3, batch_size=None, image_size=(1, 1))
    greys = [[float(image[0, 0, 0]) for image, _ in await elements(once)] for _ in range(2)]
    assert (
        greys[0]
        == greys[1]
        == [
            float(image[0, 0, 0])
            for image, _ in await elements(
                image_dataset_from_directory(folder, seed=3, batch_size=None, image_size=(1, 1))
            )
        ]
    )
    iterator = once.iterate()
    first = await anext(iterator)
    rest = once.iterate(iterator.state())
    assert [float(first[0][0, 0, 0]), *[float(image[0, 0, 0]) async for image, _ in rest]] == greys[0]
    await iterator.aclose()


async def test_a_model_trains_on_pictures(folder):
    with af.Graph().as_default():
        line = [af.layers.Input([2, 3, 3]), af.layers.Rescaling(1 / 255), af.layers.Flatten(), af.layers.Dense(2)]
        async with af.Sequential(line) as model:
            model.compile("sgd", af.losses.SparseCategoricalCrossentropy(from_logits=True))
            history = await model.fit(ordered(folder, batch_size=2), epochs=20, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


async def test_a_broken_file_is_an_error_with_its_name_or_is_left_out(folder, caplog):
    broken = folder / "ant" / "2.png"
    whole = (folder / "ant" / "0.png").read_bytes()
    forged = bytearray(whole)
    forged[16:24] = b"\x00\x00\xff\xff" * 2
    cases = {
        b"": "neither PNG, JPEG, GIF nor BMP", whole[:-20]: "truncated", bytes(forged): "cannot hold a PNG of 65535",
    }  # fmt: skip
    for content, text in cases.items():
        broken.write_bytes(content)
        with pytest.raises(errors.InvalidArgumentError, match=rf"2\.png: .*{text}") as found:
            await elements(ordered(folder))
        assert "test_images.py" in found.value.line
    caplog.set_level(logging.WARNING)
    strict, lenient = ordered(folder), ordered(folder, skip_corrupt=True)
    (folder / "bee" / "1.png").unlink()
    ((_, labels),) = await elements(lenient)
    assert labels.tolist() == [0, 0, 1, 1]
    assert ["2.png" in record.getMessage() or "1.png" in record.getMessage() for record in caplog.records] == [True] * 2
    broken.write_bytes(whole)
    with pytest.raises(errors.NotFoundError, match=r"1\.png"):
        await elements(strict)


async def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    (tmp_path / "large.bmp").touch()
    os.truncate(tmp_path / "large.bmp", MOST_BYTES + 1)
    with pytest.raises(errors.InvalidArgumentError, match=rf"large\.bmp: a picture has at most {MOST_BYTES} bytes"):
        await elements(ordered(tmp_path, labels=None))


async def test_margins_that_take_too_much_memory_are_refused(tmp_path):
    Image.fromarray(np.zeros((1, 60_000, 3), np.uint8)).save(tmp_path / "line.png")
    with pytest.raises(errors.InvalidArgumentError, match=r"line\.png: margins would make 59999x60000 pixels"):
        await elements(ordered(tmp_path, labels=None, image_size=(2, 2), pad_to_aspect_ratio=True))


def test_links_are_followed_on_request_and_special_files_left_out(folder):
    (folder / "bee" / "again").symlink_to(folder / "ant")
    (folder / "bee" / "loop").symlink_to(folder / "bee")
    os.mkfifo(folder / "bee" / "pipe.png")
    assert len(ordered(folder).file_paths) == 5
    assert len(ordered(folder, follow_links=True).file_paths) == 7


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"label_mode": "one-hot"}, ValueError, "label_mode is 'int', 'categorical', 'binary' or None, not 'one-hot'"),
        ({"color_mode": "cmyk"}, ValueError, "color_mode is one of grayscale, rgb, rgba, not 'cmyk'"),
        ({"color_mode": ["rgb"]}, ValueError, r"color_mode is one of grayscale, rgb, rgba, not \['rgb'\]"),
        ({"seed": 1.5, "shuffle": True}, TypeError, "seed must be an integer, not 1.5"),
        ({"validation_split": "half", "subset": "both"}, ValueError, "validation_split is a number .*, not 'half'"),
        ({"interpolation": "lanczos3"}, ValueError, "interpolation is one of nearest, bilinear, bicubic, area"),
        ({"image_size": 3}, ValueError, "image_size is a height and a width, not 3"),
        ({"image_size": (0, 3)}, ValueError, "image_size must be at least 1, not 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"class_names": ["ant", "cat"]}, ValueError, "class_names are .*, and the folders"),
        ({"labels": [1, 2]}, ValueError, "there are 2 labels, and 5 pictures"),
        ({"labels": [10**9] * 5}, ValueError, "labels are the numbers of classes, from 0 to 99999, not 1000000000"),
        ({"labels": [-1] * 5}, ValueError, "labels are the numbers of classes, from 0 to 99999, not -1"),
        ({"labels": [0.5] * 5}, TypeError, "a label must be an integer, not 0.5"),
        ({"labels": 3}, TypeError, "labels is 'inferred', None, or a list"),
        ({"labels": [0, 1, 2, 0, 1], "label_mode": "binary"}, ValueError, "for 2 classes, and there are 3"),
        ({"labels": [0] * 5, "class_names": ["ant"]}, ValueError, "class_names are for labels='inferred'"),
        ({"validation_split": 0.5}, ValueError, "validation_split and subset are given together"),
        ({"validation_split": 1.5, "subset": "both"}, ValueError, "more than 0 and less than 1, not 1.5"),
        ({"validation_split": 0.5, "subset": "rest"}, ValueError, "subset is 'training', 'validation' or 'both'"),
        ({"validation_split": 0.01, "subset": "both"}, ValueError, "leaves none on one side"),
        ({"validation_split": 0.5, "subset": "training", "shuffle": True}, ValueError, "give a seed"),
        ({"data_format": "NHWC"}, ValueError, "data_format is 'channels_last' or 'channels_first'"),
        *[
            ({flag: "no"}, TypeError, f"{flag} must be True or False, not 'no'")
            for flag in ("shuffle", "follow_links", "skip_corrupt", "crop_to_aspect_ratio", "pad_to_aspect_ratio")
        ],
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, ValueError, "cropped or padded"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(folder, options, kind, text):
    with pytest.raises(kind, match=text):
        ordered(folder, **options)


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there are no pictures in"):
        image_dataset_from_directory(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        image_dataset_from_directory(tmp_path / "gone")
