"""How the files are divided among the workers of a run."""

from tests.support.shares import Divider


def test_each_file_is_collected_by_one_worker_and_by_the_others_as_empty(request):
    dividers = [Divider(number, 3) for number in range(3)]
    owners = []
    for _ in range(7):
        made = [each.pytest_pycollect_makemodule(request.path, request.session) for each in dividers]
        assert made.count(None) == 1
        assert [module.collect() for module in made if module] == [[], []]
        owners.append(made.index(None))
    assert owners == [0, 1, 2, 0, 1, 2, 0]
