"""Rows of labels in time. `oracle/ops/ctc.py` compares losses, gradients and decoders with TensorFlow."""

import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

LABELS = ([[0, 0], [0, 1], [1, 0]], [1, 1, 0], [3, 2])
ZEROS = np.zeros((4, 3, 3), np.float32)


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def test_losses_count_paths_and_rows_without_room_are_told_apart(graph):
    x, labels = af.constant(ZEROS), af.SparseTensor(*LABELS)
    losses = {
        "sparse": af.nn.ctc_loss(labels, x, [4, 3, 2]),
        "ignored": af.nn.ctc_loss(labels, x, [2, 1, 0], ignore_longer_outputs_than_inputs=True),
        "unmerged": af.nn.ctc_loss(labels, x, [2, 2, 2], ctc_merge_repeated=False),
        "dense": af.nn.ctc_loss_v2([[1, 1], [2, 0], [1, 1]], x, [2, 1, 0], [2, 1, 0]),
        "blank last": af.nn.ctc_loss_v2(labels, x, None, [4, 3, 2], blank_index=-1),
        "batch first": af.nn.ctc_loss(
            labels, logits=af.transpose(x, [1, 0, 2]), sequence_length=[4, 3, 2], time_major=False
        ),
        "object": af.losses.CTC()([[1], [2], [1]], af.transpose(x, [1, 0, 2])),
    }
    tight = af.nn.ctc_loss(labels, x, [2, 3, 2])
    slopes = af.gradients(losses["dense"], x)[0]
    async with af.Session(graph=graph) as session:
        found = await session.run(losses)
        assert np.isfinite(await session.run(slopes)).all()
        with pytest.raises(af.errors.InvalidArgumentError, match="a row has too few times for its labels"):
            await session.run(tight)
    paths = {name: np.exp(-value) for name, value in found.items()}
    np.testing.assert_allclose(paths["sparse"], [5 / 81, 6 / 27, 1 / 9], rtol=1e-5)
    np.testing.assert_allclose(paths["ignored"], [1, 1 / 3, 1], rtol=1e-5)
    np.testing.assert_allclose(paths["unmerged"], [1 / 9, 2 / 9, 1 / 9], rtol=1e-5)
    np.testing.assert_allclose(paths["dense"], [0, 1 / 3, 1], rtol=1e-5)
    for name in ("blank last", "batch first"):
        np.testing.assert_allclose(paths[name], paths["sparse"], rtol=1e-6)
    np.testing.assert_allclose(paths["object"], 10 / 81, rtol=1e-5)


async def test_decoders_merge_what_lasts_and_keep_what_a_blank_divides(graph):
    best = [[0, 2, 0, 1], [1, 1, 2, 2]]  # 2 is the blank
    logits = np.eye(3, dtype=np.float32)[best].transpose(1, 0, 2) * 20
    merged, sums = af.nn.ctc_greedy_decoder(logits, [4, 3])
    whole, _ = af.nn.ctc_greedy_decoder(logits, [4, 3], merge_repeated=False)
    beam, scores = af.nn.ctc_beam_search_decoder_v2(logits, [4, 3], top_paths=2)
    joined, _ = af.nn.ctc_beam_search_decoder([[[9.0, 0, 0]], [[0, 0, 9.0]], [[9.0, 0, 0]]], [3])
    async with af.Session(graph=graph) as session:
        found = await session.run([merged[0], whole[0], beam[0], joined[0], sums, scores])
    assert [each.values.tolist() for each in found[:4]] == [[0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 1, 1], [0]]
    assert found[0].indices.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0]]
    assert found[4].tolist() == [[-80], [-60]]
    np.testing.assert_allclose(found[5][:, 0], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: af.nn.ctc_loss([[1]], ZEROS, [4]), "labels are a SparseTensor, not list; ctc_loss_v2 takes dense"),
        (
            lambda: af.nn.ctc_loss_v2(af.SparseTensor(*LABELS), ZEROS, None, [4]),
            "blank_index is needed for sparse labels",
        ),
        (lambda: af.nn.ctc_loss_v2([[1]], ZEROS, [1], [4, 4, 4]), r"labels of shape \[1, 1\] do not fit a batch of 3"),
        (lambda: af.nn.ctc_loss_v2([[1]], ZEROS, None, [4]), "label_length is needed"),
        (lambda: af.nn.ctc_loss_v2([[1]] * 3, ZEROS, [1] * 3, [4] * 3, blank_index=3), "one of 3 classes, not 3"),
        (lambda: af.nn.ctc_greedy_decoder(ZEROS, [4]), r"sequence_length of shape \[1\] does not fit a batch of 3"),
        (lambda: af.nn.ctc_beam_search_decoder(ZEROS, [4] * 3, 2, 3), "top_paths is from 1 to beam_width, 2, not 3"),
    ],
)
def test_wrong_arguments_are_named(graph, build, text):
    with pytest.raises((ValueError, TypeError), match=text):
        build()


def test_wrong_values_are_named_in_the_run(graph):
    for labels, counts, times, text in (
        ([[5], [1], [1]], [1] * 3, [4] * 3, "label 5 of row 0 is not one of the 3 classes"),
        ([[1], [0], [1]], [1] * 3, [4] * 3, r"label 0 of row 1 .* is blank \(0\)"),
        ([[1], [1], [1]], [1, 2, 1], [4] * 3, "label_length is 2 for row 1, which has 1 labels"),
        ([[1], [1], [1]], [1] * 3, [4, 4, 5], "logit_length is 5 for row 2, which has 4 times"),
    ):
        with pytest.raises(ValueError, match=text):
            evaluate(af.nn.ctc_loss_v2(labels, ZEROS, counts, times))
