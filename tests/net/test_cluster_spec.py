"""Which tasks there are."""

import pytest

from aioflow import errors
from aioflow.net.cluster import ClusterSpec, Member, filtered
from aioflow.net.server import Server

PS, FIRST, SECOND = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:2"
SPEC = ClusterSpec({"worker": {2: "c:3", 0: "b:2"}, "ps": ["a:1"]})


def test_tasks_are_known_by_job_and_number():
    assert SPEC.jobs == ["ps", "worker"]
    assert SPEC.task_indices("worker") == [0, 2]
    assert SPEC.num_tasks("worker") == 2
    assert SPEC.job_tasks("worker") == ["b:2", None, "c:3"]
    assert SPEC.task_address("worker", 2) == "c:3"
    assert dict(SPEC) == {PS: "a:1", FIRST: "b:2", SECOND: "c:3"}
    assert Member(SPEC, "worker", 2).name == SECOND


def test_equal_clusters_have_one_digest_whoever_writes_them_down():
    again = ClusterSpec(SPEC.as_dict())
    assert (again, hash(again), again.digest) == (SPEC, hash(SPEC), SPEC.digest)
    assert ClusterSpec({"ps": ["a:1"]}).digest != ClusterSpec({"ps": {1: "a:1"}}).digest


@pytest.mark.parametrize(
    ("told", "error", "text"),
    [
        (["a:1"], TypeError, "a cluster is a dict of jobs"),
        ({"ps": "a:1"}, TypeError, "job 'ps' has a list of addresses"),
        ({"1": ["a:1"]}, ValueError, "'1' is no name of a job"),
        ({"ps": {"x": "a:1"}}, ValueError, "'x' is no number of a task"),
        ({"ps": {-1: "a:1"}}, ValueError, "-1 is no number of a task"),
        ({"ps": [7]}, TypeError, "the address of task 0 is text"),
        (
            {"ps": ["a:1"], "worker": ["a:1"]},
            ValueError,
            "/job:ps/replica:0/task:0 and /job:worker/replica:0/task:0 ha",
        ),
    ],
)
def test_what_is_no_cluster_is_refused(told, error, text):
    with pytest.raises(error, match=text):
        ClusterSpec(told)


@pytest.mark.parametrize("index", [True, 0.0, "0", 1, -1, None])
def test_a_task_that_is_none_of_the_clusters_has_no_address(index):
    with pytest.raises(ValueError, match=f"job 'worker' has no task {index!r}; it has 0, 2"):
        SPEC.task_address("worker", index)


@pytest.mark.parametrize("address", ["a", "a:", ":1", "a b:1", "fe80::1:29501", "ws://a:1", "a:65536", "a:1/x"])
def test_what_describes_a_real_cluster_has_a_host_and_a_port_for_each_task(address):
    with pytest.raises(ValueError, match=r"task:1: .* is not an address; write host:port"):
        ClusterSpec.from_plain({"ps": {"0": "[fe80::1]:29501", "1": address}})
    with pytest.raises(ValueError, match=r"task:1: .* is not an address; write host:port"):
        Server({"ps": ["b:1", address]}, "ps", 0)
    assert ClusterSpec({"ps": [address]}).task_address("ps", 0) == address


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([], [PS, FIRST, SECOND]),
        (["/job:ps"], [PS]),
        (["/job:worker", "/job:ps/task:7"], [FIRST, SECOND]),
        (["/job:worker/task:2/device:GPU:0"], [SECOND]),
        (["/task:0"], [PS, FIRST]),
    ],
)
def test_filters_name_tasks(filters, found):
    assert filtered(dict(SPEC), filters) == found


@pytest.mark.parametrize(
    ("filters", "text"), [(["/job:chief"], "name none"), (["/jub:ps"], "malformed"), ([3], "device_filters")]
)
def test_filters_that_name_nothing_are_refused(filters, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        filtered(dict(SPEC), filters)
