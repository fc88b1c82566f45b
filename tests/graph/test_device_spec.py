import pytest

from aioflow.graph.device_spec import DeviceSpec, task_of


@pytest.mark.parametrize(
    ("device", "task"),
    [
        ("/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1"),
        ("/job:ps/task:2/cpu:0", "/job:ps/replica:0/task:2"),
    ],
)
def test_the_task_of_a_device_is_its_name_without_the_device(device, task):
    assert task_of(device) == task


def test_specs_are_merged_and_their_parts_replaced():
    spec = DeviceSpec(job="worker", device_type="GPU")
    merged = spec.make_merged_spec(DeviceSpec(job="ps", task=1))
    assert merged.to_string() == "/job:ps/task:1/device:GPU:*"
    assert merged.replace(device_type=None, task=2).to_string() == "/job:ps/task:2"
    assert spec == DeviceSpec(job="worker", device_type="GPU")
