"""What TensorBoard's own readers find in event files."""

import importlib.util

import pytest

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="the package tensorboard is not installed"
)
needs_pillow = pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="Pillow is not installed")


def read(folder):
    """What TensorBoard's reader finds in the files of a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), {"images": 0, "histograms": 0, "audio": 0})
    found.Reload()
    return found


def events_of(folder):
    """All events of the files of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    return [event for path in sorted(folder.iterdir()) for event in LegacyEventFileLoader(str(path)).Load()]
