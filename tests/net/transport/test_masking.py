"""Masks of the payloads of frames."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aioflow.net.transport import masking
from aioflow.net.transport.masking import ZERO, key_maker, masked, masked_blocks, unmask

KEYS = st.sampled_from([ZERO, b"\1\2\3\4", b"\0\0\0\xff"])
SIZES = st.sampled_from([0, 1, 3, 256, 257, 1023, 5000, 2 * masking._BLOCK + 77])


def content(nbytes):
    return bytes(number % 251 for number in range(nbytes))


@given(SIZES, KEYS, st.integers(0, 7), st.lists(st.integers(0, 1 << 20), max_size=4))
@example(5000, b"\1\2\3\4", 3, [1, 258])
def test_unmasked_parts_at_any_place_in_memory_are_what_was_masked(nbytes, key, place, cuts):
    data = content(nbytes)
    expected = bytes(one ^ key[at % 4] for at, one in enumerate(data))
    assert bytes(masked(data, key)) == b"".join(map(bytes, masked_blocks(data, key))) == expected
    came = memoryview(bytearray(place) + expected)[place:]
    edges = [0, *sorted(cut % (nbytes + 1) for cut in cuts), nbytes]
    rest = key
    for start, end in itertools.pairwise(edges):
        rest = unmask(came[start:end], rest)
    assert came == data


class Connection:
    def __init__(self, *ends):
        self._ends = dict(zip(("sockname", "peername"), ends, strict=True))

    def get_extra_info(self, name):
        return self._ends[name]


@pytest.mark.parametrize(
    ("near", "far", "is_masked"),
    [
        (("127.0.0.1", 1), ("127.0.0.1", 2), False),
        (("::1", 1, 0, 0), ("::1", 2, 0, 0), False),
        (("10.0.0.7", 1), ("10.0.0.8", 2), True),
        (("10.0.0.7", 1), None, True),
        (None, None, True),
    ],
)
def test_only_bytes_that_leave_the_host_are_masked_with_unpredictable_keys(near, far, is_masked):
    new_key = key_maker(Connection(near, far))
    keys = {new_key() for _ in range(20)}
    assert (len(keys) > 10) is is_masked
    assert (keys == {ZERO}) is not is_masked
