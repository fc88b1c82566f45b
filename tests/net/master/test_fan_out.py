"""The tree by which a master reaches its tasks."""

import math

import pytest

from aioflow.net.master.fan_out import MOST, WIDTH, fan_out


def reached(tree):
    """Each reached task with the number of requests on the way to it."""
    found, now, depth = [], list(tree.asked), 1
    while now:
        found += [(task, depth) for task in now]
        now, depth = [below for task in now for below in tree.below.get(task, ())], depth + 1
    return found


@pytest.mark.parametrize("count", [0, 1, 2, MOST, MOST + 1, WIDTH + 1, 73, 100, 583, 584, 585, 4000])
def test_each_task_is_reached_once_over_few_others(count):
    tasks = [f"/job:worker/replica:0/task:{index}" for index in range(count)]
    tree = fan_out(tasks)
    found = reached(tree)
    assert sorted(task for task, _ in found) == sorted(tasks)
    if count <= MOST:
        assert tree.asked == tasks
        assert not tree.below
    else:
        assert max(map(len, [tree.asked, *tree.below.values()])) == WIDTH
        assert max(depth for _, depth in found) <= math.log(count, WIDTH) + 1


def test_tasks_that_follow_each_other_ask_each_other():
    tasks = [f"task {index}" for index in range(64)]
    tree = fan_out(tasks)
    for task, below in tree.below.items():
        first = tasks.index(task)
        assert set(below) <= set(tasks[first : first + WIDTH])
