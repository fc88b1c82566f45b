import numpy as np
import pytest

import aioflow as af
from tests.support.evaluate import evaluate

sampler = af.nn.fixed_unigram_candidate_sampler


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_classes_are_drawn_in_proportion_to_their_weights():
    weights, classes = [1.0, 0.0, 3.0, 16.0], np.arange(5).reshape(5, 1)
    drawn, expected, _ = evaluate(list(sampler(classes, 1, 50_000, False, 5, distortion=0.5, num_reserved_ids=1,
        unigrams=weights, seed=5)))  # fmt: skip
    counts, wanted = np.bincount(drawn, minlength=5), expected.ravel()
    np.testing.assert_allclose(wanted, 50_000 * np.array([0, 1, 0, 3**0.5, 4]) / (5 + 3**0.5), rtol=1e-5)
    assert (abs(counts - wanted) <= 5 * np.sqrt(wanted)).all()


def test_unique_classes_differ_and_come_from_the_shard_alone(tmp_path):
    vocabulary = tmp_path / "words"
    vocabulary.write_text("a,1\nb,20\nc,0.5\nd,4\ne,1\nf,0\n")
    call = sampler([[1], [2]], 1, 2, True, 3, str(vocabulary), num_shards=2, shard=1, seed=1)
    drawn, right, expected = evaluate(list(call))
    assert sorted(drawn) == [0, 1]
    assert right[0, 0] == expected[drawn.tolist().index(1)] <= 1
    assert right[1, 0] == 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "the weights come from either vocab_file or unigrams"),
        ({"unigrams": [1.0]}, "0 reserved classes and 1 weights are not 2 classes"),
        ({"unigrams": [1.0, 2.0], "shard": 1}, "shard is from 0 to num_shards, 1, not 1"),
    ],
)
def test_wrong_arguments_are_named(changes, text):
    with pytest.raises(ValueError, match=text):
        sampler([[0]], 1, 2, True, 2, **changes)


def test_lines_without_a_weight_and_weights_for_too_few_classes_are_named(tmp_path):
    vocabulary = tmp_path / "words"
    vocabulary.write_text("a,1\nb\n")
    with pytest.raises(ValueError, match=r"line 2 of .*words must end in a comma and a weight: 'b'"):
        sampler([[0]], 1, 2, True, 2, str(vocabulary))
    with pytest.raises(ValueError, match="enough of them above 0 to draw 2 classes"):
        evaluate(sampler([[0]], 1, 2, True, 2, unigrams=[1.0, 0.0])[0])


async def test_true_classes_become_more_probable_with_each_step_that_has_them():
    true = af.placeholder(af.int32, [None, 1])
    drawn, expected, _ = af.nn.learned_unigram_candidate_sampler(true, 1, 6, False, 3, seed=2)
    async with af.Session() as session:
        found = [(await session.run(expected, {true: [[1], [1]]})).tolist() for _ in range(3)]
        assert {*(await session.run(drawn, {true: [[0]]})).tolist()} <= {0, 1, 2}
    np.testing.assert_allclose(found, np.array([1 / 3, 3 / 5, 5 / 7]).reshape(3, 1, 1).repeat(2, 1) * 6, rtol=1e-6)
