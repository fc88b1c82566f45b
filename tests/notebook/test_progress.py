"""Progress in a notebook: one output that changes, as HTML and as text; elsewhere nothing of it."""

import io
import sys
import types

import numpy as np
import pytest

import aioflow as af
from aioflow.notebook.live import in_notebook


class Shown:
    """The outputs of a cell: for each of them, what it has shown, as text and as HTML."""

    def __init__(self):
        self.outputs = []

    def display(self, view, display_id):
        assert display_id is True
        shown = []
        self.outputs.append(shown)

        def update(view):
            shown.append((repr(view), view._repr_html_()))

        update(view)
        return types.SimpleNamespace(update=update)


@pytest.fixture
def notebook(monkeypatch):
    shown = Shown()
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=shown.display))
    return shown


def test_only_the_kernel_of_a_notebook_is_one(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    for shell in (None, types.SimpleNamespace()):  # IPython without a shell, and in a terminal
        monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert not in_notebook()


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default():
        yield


async def fit(**options):
    async with af.Sequential([af.layers.Dense(1)]) as model:
        model.compile("sgd", "mse", metrics=["mae"])
        return await model.fit(np.ones((8, 2), np.float32), np.ones((8, 1), np.float32), batch_size=2, **options)


async def test_fit_shows_one_table_of_epochs(notebook, capsys):
    history = await fit(epochs=15)
    ((*_, (text, html)),) = notebook.outputs
    assert text.startswith("epoch 15/15: 4/4 ")
    assert f"loss: {history.history['loss'][-1]:.4g}" in text
    assert f">{history.history['loss'][-1]:.4g}</td>" in html
    assert html.count("<tr>") == 13  # the last 12 epochs, and the names of the columns
    assert "and 3 more epochs before" in html
    assert "width:100.0%" in html
    await fit(initial_epoch=2, epochs=3)
    assert notebook.outputs[1][-1][0].startswith("epoch 3/3: 4/4 ")
    assert "epoch 3 of 3" in notebook.outputs[1][-1][1]
    assert capsys.readouterr().out == ""


async def test_fit_writes_lines_where_they_are_wanted(notebook, capsys):
    await fit(verbose=2)
    await fit(verbose=0)
    assert notebook.outputs == []
    assert "Epoch 1/1\n4/4  " in capsys.readouterr().out


def test_progress_is_a_bar_with_a_line(notebook, capsys):
    times = iter(range(100))
    with af.train.Progress(total_steps=4, clock=lambda: float(next(times))) as progress:
        for step in range(4):
            progress.update(step + 1, loss=0.5)
    (shown,) = notebook.outputs
    assert [text.partition("  ")[0] for text, _ in shown] == ["step 1/4", "step 2/4", "step 3/4", "step 4/4"]
    assert "width:25.0%" in shown[0][1]
    assert "step 4/4  loss 0.5" in shown[-1][1]
    with af.train.Progress(stream=io.StringIO()) as progress:
        progress.update(1)
    with af.train.Progress() as progress:  # without a total there is no bar
        progress.update(1)
    assert len(notebook.outputs) == 2
    assert "width" not in notebook.outputs[1][0][1].partition("</style>")[2]
    assert capsys.readouterr().err == ""
