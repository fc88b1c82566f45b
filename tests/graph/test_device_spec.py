import pytest

from aioflow.graph.device_spec import task_of


@pytest.mark.parametrize(
    ("device", "task"),
    [
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1"),
        ("/job:ps/task:2/cpu:0", "/job:ps/replica:0/task:2"),
    ],
)
def test_the_task_of_a_device_is_its_name_without_the_device(device, task):
    assert task_of(device) == task
