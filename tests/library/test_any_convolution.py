"""Convolutions with any number of batch axes: library/any_convolution.py."""

import numpy as np
import pytest

import aioflow as af

DRAW = np.random.default_rng(2)
IMAGES = DRAW.standard_normal((2, 3, 5, 6, 4))
FILTERS = DRAW.standard_normal((2, 2, 4, 6))


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(*fetches):
    async with af.Session() as session:
        return await session.run(fetches)


async def test_batch_axes_are_kept():
    found = af.conv(IMAGES, FILTERS, [1, 2, 1, 1], "SAME", batch_dims=2)
    plain = af.nn.conv2d(IMAGES.reshape(6, 5, 6, 4), FILTERS, [1, 2, 1, 1], "SAME")
    assert found.shape == [2, 3, 3, 6, 6]
    mine, theirs = await run(found, plain)
    np.testing.assert_allclose(mine.reshape(theirs.shape), theirs, atol=1e-12)


async def test_paddings_dilations_and_formats_are_those_of_conv2d():
    images = IMAGES[0]
    pads = [0, 0, 1, 2, 0, 1, 0, 0]
    explicit = af.conv(images, FILTERS, [1, 1, 1, 1], "EXPLICIT", pads, dilations=[1, 1, 2, 1])
    first = af.conv(images.transpose(0, 3, 1, 2), FILTERS, [1, 1, 1, 1], "VALID", data_format="CHANNELS_FIRST")
    wanted = [
        af.nn.conv2d(images, FILTERS, 1, [[0, 0], [1, 2], [0, 1], [0, 0]], dilations=[1, 1, 2, 1]),
        af.transpose(af.nn.conv2d(images, FILTERS, 1, "VALID"), [0, 3, 1, 2]),
    ]
    mine, theirs, other, expected = await run(explicit, wanted[0], first, wanted[1])
    np.testing.assert_allclose(mine, theirs, atol=1e-12)
    np.testing.assert_allclose(other, expected, atol=1e-12)


async def test_groups_see_their_own_channels():
    images, filters = IMAGES[0], FILTERS[:, :, :2]
    halves = [af.nn.conv2d(images[..., 2 * n : 2 * n + 2], filters[..., 3 * n : 3 * n + 3], 1, "SAME") for n in (0, 1)]
    mine, theirs = await run(af.conv(images, filters, [1, 1, 1, 1], "SAME", groups=2), af.concat(halves, 3))
    np.testing.assert_allclose(mine, theirs, atol=1e-12)


async def test_volumes_have_filters_of_rank_5():
    volumes, filters = IMAGES, DRAW.standard_normal((2, 2, 2, 4, 3))
    mine, theirs = await run(
        af.conv(volumes, filters, [1] * 5, "VALID"), af.nn.conv3d(volumes, filters, [1] * 5, "VALID")
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_dims": 2}, "input has 2 batch axes, 2 spatial ones and channels, not the rank 4"),
        ({"padding": "EXPLICIT"}, "with 8 explicit_paddings, not 'EXPLICIT' with 0"),
        ({"explicit_paddings": [0] * 8}, "for the padding 'EXPLICIT', not for 'SAME'"),
        ({"data_format": "NHWC"}, "CHANNELS_LAST or CHANNELS_FIRST, not 'NHWC'"),
        ({"groups": 0}, "at least 1, not 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        af.conv(IMAGES[0], FILTERS, [1, 1, 1, 1], **{"padding": "SAME", **options})
