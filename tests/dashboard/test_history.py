"""An hour of numbers, and more: bounded, in order, the newest ones exact, the oldest ones means."""

import pytest

from aioflow.dashboard import history
from aioflow.dashboard.history import Series, SeriesTable


def test_a_series_is_bounded_and_reaches_back_for_hours():
    series = Series()
    for number in range(40_000):  # 5.5 hours, twice a second
        series.add(number / 2, float(number))
    found = series.message()
    assert len(found.times) <= history.LEVELS * (history.LENGTH + 1)
    assert list(found.times) == sorted(found.times)
    assert found.values[-history.LENGTH :] == tuple(map(float, range(40_000 - history.LENGTH, 40_000)))
    assert found.times[-1] - found.times[0] > 2 * 3600
    # a mean is near its time: the numbers rise by 2 a second
    assert all(
        abs(value - 2 * time) <= 2**history.LEVELS for time, value in zip(found.times, found.values, strict=True)
    )


def test_there_are_so_many_series_and_no_more():
    table = SeriesTable()
    for number in range(1000):
        values = table.known({f"value:{number}": 1.0, "x" * 10_000: 2.0})
        table.add(float(number), values)
    assert len(table.message().series) == history.MOST
    assert max(map(len, table.message().series)) <= 401


def test_a_table_takes_over_the_history_of_another():
    first, second = SeriesTable(), SeriesTable()
    for number in range(300):
        first.add(float(number), first.known({"value:a": float(number)}))
    second.restart(first.message())
    assert second.message().series["value:a"].times[-100:] == first.message().series["value:a"].times[-100:]
    assert second.message().series["value:a"].values[-1] == pytest.approx(299.0)
