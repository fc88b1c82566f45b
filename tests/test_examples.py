import asyncio
import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import web

import aioflow as af
from aioflow.graph.op import REGISTRY
from aioflow.testing import no_leaks
from tests.kernels import samples, test_registry
from tests.support.scale import amount

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import cluster_digits  # noqa: E402
import convnet_digits  # noqa: E402
import data_parallel  # noqa: E402
import input_pipeline  # noqa: E402
import latency_curve  # noqa: E402
import lstm_text  # noqa: E402
import model_parallel  # noqa: E402
import serve_digits  # noqa: E402
import stream_source  # noqa: E402
import train_digits  # noqa: E402
import transformer_text  # noqa: E402
import vae_digits  # noqa: E402
import word2vec  # noqa: E402


def run(*arguments):
    """Run a program as a user does, but with warnings as errors, and with this tree's aioflow, installed or not."""
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


# The data


def test_the_digits_are_the_whole_set_split_without_overlap():
    seen, unseen = train_digits.load_digits()
    assert (len(seen.labels), len(unseen.labels)) == (1438, 359)
    both = np.concatenate([seen.images, unseen.images])
    assert (both.shape, both.dtype, both.min(), both.max()) == ((1797, 64), np.float32, 0, 1)
    assert len(np.unique(both, axis=0)) == 1797
    assert set(seen.labels) == set(unseen.labels) == set(range(10))


def test_the_batches_of_an_epoch_hold_each_digit_once():
    seen, _ = train_digits.load_digits()
    batches = list(seen.batches(np.random.default_rng(0)))
    rows = np.concatenate([np.column_stack([batch.images, batch.labels]) for batch in batches])
    wanted = np.column_stack([seen.images, seen.labels])
    np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(wanted, axis=0))
    assert {len(batch.labels) for batch in batches} == {32, 1438 % 32}


# Training


@pytest.mark.slow
def test_the_demo_reads_at_least_97_percent_of_digits_it_has_not_seen():
    done = run("examples/train_digits.py", "--epochs", amount(20, 100))
    assert done.returncode == 0, done.stderr
    accuracy = re.fullmatch(r"test accuracy (0\.\d{3}|1\.000)", done.stdout.splitlines()[-1])
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) >= 0.97
    assert "\r" not in done.stderr
    assert 2 <= len(done.stderr.splitlines()) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", pytest.param("uvloop", marks=pytest.mark.long)])
def test_the_demo_runs_on_either_loop(loop):
    done = run("examples/train_digits.py", "--epochs", "1", "--loop", loop)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"test accuracy [01]\.\d{3}", done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.long
def test_the_convolutional_demo_reads_most_digits_after_a_few_epochs():
    done = run("examples/convnet_digits.py", "--epochs", "5")
    assert done.returncode == 0, done.stderr
    accuracy = re.fullmatch(r"test accuracy (\d\.\d{4})", done.stdout.splitlines()[-1])
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) >= 0.9


def test_digits_are_moved_by_at_most_a_pixel_and_to_all_sides():
    seen, _ = train_digits.load_digits()
    image = np.zeros([8, 8], np.float32)
    image[3, 4] = 1
    moved = convnet_digits.moved(np.tile(image.reshape(64), [200, 1]), np.random.default_rng(0))
    _, rows, columns = np.nonzero(moved.reshape(200, 8, 8))
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {(y, x) for y in (2, 3, 4) for x in (3, 4, 5)}
    shown = convnet_digits.MovingDigits(*seen).batches(np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate([batch.labels for batch in shown])), np.sort(seen.labels))


@pytest.mark.long
def test_the_text_demo_learns_to_foresee_characters_and_writes():
    done = run("examples/lstm_text.py", "--steps", "40", "--length", "30")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines(keepends=True)
    losses = [float(re.fullmatch(r"step \d+  (\d\.\d+) bits per character\n", line)[1]) for line in lines[:20]]
    assert losses[-1] < losses[0] - 0.5
    written = "".join(lines[20:])
    assert written.startswith(lstm_text.PROMPT)
    assert len(written) == len(lstm_text.PROMPT) + 30 + len("\n")


def test_windows_of_text_go_on_where_the_last_ended():
    text = np.arange(lstm_text.STREAMS * (2 * lstm_text.WINDOW + 7))
    (first, following), (second, _) = lstm_text.windows(text)
    np.testing.assert_array_equal(second, first + lstm_text.WINDOW)
    np.testing.assert_array_equal(following, first + 1)


@pytest.fixture
def small_transformer(monkeypatch):
    sizes = {"FREQUENT": 200, "CONTEXT": 24, "BATCH": 8, "WIDTH": 32, "HEADS": 2, "EACH": 16, "RATE": 0.01}
    for name, value in sizes.items():
        monkeypatch.setattr(transformer_text, name, value)


@pytest.mark.slow
@pytest.mark.real
async def test_the_transformer_learns_and_writes_with_its_cache_as_without(small_transformer):
    vocabulary = transformer_text.Vocabulary(transformer_text.TEXT)
    numbers = vocabulary.numbers(transformer_text.TEXT[:2_000])
    prompt = vocabulary.numbers(transformer_text.PROMPT)
    assert "".join(vocabulary.words[number] for number in prompt) == transformer_text.PROMPT
    with af.Graph().as_default():
        af.set_random_seed(1)
        model = transformer_text.Writer(len(vocabulary.words))
        async with af.Session() as session, asyncio.TaskGroup() as group:
            history = await transformer_text.train(model, numbers, 80)
            queue, write = transformer_text.writing(model, prompt, transformer_text.CONTEXT, spread=1e-6)
            group.create_task(session.run(write))
            written = np.array([number async for number in session.queue(queue)])
            (logits,) = await model.predict(written[None])
    shares = np.unique(numbers, return_counts=True)[1] / len(numbers)
    assert history.history["loss"][-1] < -(shares * np.log2(shares)).sum()
    np.testing.assert_array_equal(written[: len(prompt)], prompt)
    drawn = np.arange(len(prompt) - 1, len(written) - 1)
    np.testing.assert_allclose(logits[drawn, written[drawn + 1]], logits[drawn].max(1), rtol=1e-4)


@pytest.mark.long
@pytest.mark.real
async def test_the_transformer_prints_as_many_words_as_it_is_asked_for(small_transformer, capsys):
    with af.Graph().as_default():
        await transformer_text.main(steps=2, length=20)
    text = capsys.readouterr().out.rpartition("loss:")[2].partition("\n")[2]
    assert text.startswith(transformer_text.PROMPT)
    assert text.endswith("\n")
    assert len(text) >= 20


@pytest.mark.slow
@pytest.mark.long
def test_the_residual_net_reads_most_digits_after_a_few_epochs():
    done = run("examples/resnet_digits.py", "--epochs", amount(3, 30))
    assert done.returncode == 0, done.stderr
    accuracy = float(re.fullmatch(r"test accuracy (\d\.\d{4})", done.stdout.splitlines()[-1])[1])
    assert accuracy >= amount(0.8, 0.98)


@pytest.mark.slow
async def test_the_autoencoder_learns_and_draws_a_picture(tmp_path):
    picture, epochs = tmp_path / "digits.png", amount(2, 6)
    done = run("examples/vae_digits.py", "--epochs", epochs, "--picture", picture)
    assert done.returncode == 0, done.stderr
    *losses, last = done.stdout.splitlines()
    surprises = [float(re.fullmatch(r"epoch \d+  surprise (\d+\.\d+)  distance \d+\.\d+", line)[1]) for line in losses]
    assert len(surprises) == epochs
    assert surprises[-1] < surprises[0] - 1
    assert last == f"the plane of digits is in {picture}"
    with af.Graph().as_default() as graph:
        pixels = af.image.decode_png(af.read_file(str(picture)))
        async with af.Session(graph=graph) as session:
            found = await session.run(pixels)
    assert found.shape == (512, 512, 1)
    tiles = found[::4, ::4, 0].reshape(16, 8, 16, 8)
    np.testing.assert_array_equal(found, np.kron(found[::4, ::4, 0], np.ones([4, 4], np.uint8))[..., None])
    assert tiles.min() < 100 < 200 < tiles.max()
    assert np.ptp(tiles, axis=(0, 2)).max() > 50


def test_the_points_of_the_plane_are_spread_like_a_normal_distribution():
    points = vae_digits.plane()
    assert points.shape == (256, 2)
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-6)
    assert 0.9 < points.std() < 1
    assert (np.sort(np.abs(points[:, 0]))[[127, 128]] < 0.8).all()


@pytest.mark.slow
def test_the_loss_of_word2vec_falls_and_it_prints_neighbours():
    done = run("examples/word2vec.py", "--steps", "150")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    losses = [float(re.fullmatch(r"step \d+  loss (\d\.\d+)", line)[1]) for line in lines[:10]]
    assert losses[-1] < losses[0] - 0.1
    for word, line in zip(word2vec.SHOWN, lines[10:], strict=True):
        assert len(set(re.fullmatch(rf"{word}: (.*)", line)[1].split(", ")) - {word}) == word2vec.NEIGHBOURS


def test_word2vec_pairs_words_with_others_within_the_window():
    numbers = np.arange(1000, dtype=np.int32)
    words, beside = next(word2vec.pairs(numbers))
    distances = beside[:, 0] - words
    assert set(distances.tolist()) == {-4, -3, -2, -1, 1, 2, 3, 4}


@pytest.mark.long
def test_a_net_learns_from_files_that_are_read_meanwhile_and_says_how_long_it_waited():
    done = run("examples/input_pipeline.py", "--epochs", "4", "--runners", "3")
    assert done.returncode == 0, done.stderr
    times, accuracy = done.stdout.splitlines()
    assert re.fullmatch(r"180 steps in \d+\.\d s, of which \d+% waiting for 3 runners", times)
    assert float(re.fullmatch(r"test accuracy (\d\.\d{3})", accuracy)[1]) >= 0.75


@pytest.mark.real
async def test_every_file_is_read_once_an_epoch_with_the_label_in_its_name(tmp_path):
    seen, _ = train_digits.load_digits()
    some = train_digits.Digits(seen.images[:40], seen.labels[:40])
    await input_pipeline.write_files(some, tmp_path)
    graph = af.Graph()
    with graph.as_default():
        batch = input_pipeline.batches(f"{tmp_path}/*.png", epochs=3, runners=2)
        init = af.local_variables_initializer()
    images, labels = [], []
    async with af.Session(graph=graph) as session, af.train.Coordinator() as coord:
        await session.run(init)
        af.train.start_queue_runners(session, coord)
        while not coord.should_stop():
            some_images, some_labels = await session.run(batch)
            images += list(some_images)
            labels += some_labels.tolist()
    assert sorted(labels) == sorted(3 * some.labels.tolist())
    assert len(images) == 120
    assert {image.shape for image in images} == {(64,)}
    assert 0.9 < max(image.max() for image in images) <= 1


# Several devices


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "devices"),
    [
        pytest.param("data_parallel", 1, marks=pytest.mark.long),
        ("data_parallel", 3),
        pytest.param("model_parallel", 1, marks=pytest.mark.long),
        ("model_parallel", 4),
    ],
)
def test_several_devices_train_with_the_losses_of_one(program, devices):
    done = run(f"examples/{program}.py", "--devices", devices, "--epochs", amount(1, 2))
    assert done.returncode == 0, done.stderr
    *curves, apart, accuracy = done.stdout.splitlines()[1:]
    assert len(curves) == 10
    for line in curves:
        _, one, several = map(float, line.split())
        assert one == pytest.approx(several, abs=1e-4)
    assert re.fullmatch(r"the losses differ by at most \d\.\de[+-]\d\d", apart)
    assert float(re.fullmatch(r"test accuracy (\d\.\d{3})", accuracy)[1]) >= 0.8


def test_losses_that_differ_end_the_program():
    assert data_parallel.compare([1.0, 2.0], [1.0, 2.0]) == 0
    for other in (2.1, np.nan):
        with pytest.raises(SystemExit, match="the losses differ by up to"):
            data_parallel.compare([1.0, 2.0], [1.0, other])


@pytest.mark.parametrize(
    ("program", "options"),
    [
        (data_parallel, ["--devices", "0"]),
        (model_parallel, ["--devices", "0"]),
        (model_parallel, ["--devices", "5"]),
        (model_parallel, ["--epochs", "0"]),
    ],
)
def test_a_number_of_devices_that_cannot_be_is_refused(program, options, capsys):
    with pytest.raises(SystemExit):
        program.parse(options)
    assert "--devices" in capsys.readouterr().err


def places(placement):
    """What runs on each device: the device's number by the node's name."""
    return {name: int(device[-1]) for name, device in placement.devices.items()}


async def test_each_tower_is_on_its_device_and_the_variables_on_the_first():
    model = data_parallel.build(["/cpu:1", "/cpu:2", "/cpu:3"])
    async with af.Session(graph=model.graph, config=af.Config(device_count={"CPU": 4})) as session:
        found = places(await session.placement([model.loss, model.train], feeds=[model.images, model.labels]))
    for name, device in found.items():
        tower = re.match(r"tower(\d)/(?!.*read_variable)", name)
        assert device == (int(tower[1]) + 1 if tower else 0), name
    assert {0, 1, 2, 3} == set(found.values())


async def test_each_layer_is_on_its_device_with_its_gradients_and_sums():
    model = model_parallel.build(4)
    async with af.Session(graph=model.graph, config=af.Config(device_count={"CPU": 4})) as session:
        placement = await session.placement([model.add, model.train], feeds=[model.images, model.labels])
    kinds = [(node.op_type, int(node.device[-1])) for node in placement.nodes]
    for device in range(4):
        assert kinds.count(("apply_momentum", device)) == 2
        assert kinds.count(("matmul", device)) == (3 if device else 2)  # the images have no gradient


# A cluster


@pytest.mark.slow
@pytest.mark.long
def test_two_workers_train_a_net_on_two_parameter_servers_and_all_end():
    epochs = amount(1, 4)
    done = run("examples/cluster_digits.py", "--epochs", epochs)
    assert done.returncode == 0, done.stderr
    *progress, accuracy = done.stdout.splitlines()
    assert {line.partition(":")[0] for line in progress} == {"worker 0", "worker 1"}
    assert len(progress) == 2 * epochs
    assert float(re.fullmatch(r"test accuracy (\d\.\d{3})", accuracy)[1]) >= 0.85


@pytest.mark.real
async def test_a_task_that_fails_is_named_and_the_others_end(monkeypatch):
    monkeypatch.setattr(cluster_digits, "free_addresses", lambda sizes: {"ps": ["nowhere"], "worker": ["no:where"]})
    monkeypatch.setattr(cluster_digits, "SIZES", {"ps": 1})
    with pytest.raises(SystemExit, match="ps 0 failed"):
        await cluster_digits.launch(1, "asyncio")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "lines"), [(Terminal(), 1), (io.StringIO(), 10)])
def test_progress_is_a_bar_on_a_terminal_and_a_few_lines_elsewhere(stream, lines):
    show = train_digits.ProgressBar(stream)
    for step in range(1, 201):
        show(train_digits.Progress(step, 200, 1 / step))
    text = stream.getvalue()
    assert text.count("\n") == lines
    assert text.count("\r") == text.count("[") >= (lines == 1)
    assert "step 200/200  loss 0.0050" in text.splitlines()[-1]


# Serving


@contextlib.asynccontextmanager
async def served(epochs):
    """A client of the application, which listens on a port of the loopback, and the task that trains in it."""
    app = serve_digits.application(epochs)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with aiohttp.ClientSession(f"http://{host}:{port}") as client:
            yield client, app[serve_digits.READER].training
    finally:
        await runner.cleanup()


async def get_status(client):
    async with client.get("/status") as response:
        assert response.status == 200
        return await response.json()


async def read(client, image):
    async with client.post("/predict", json={"image": image}) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def accuracy(client, digits):
    answers = await asyncio.gather(*[read(client, image) for image in (digits.images * 16).tolist()])
    assert all(np.isclose(sum(answer["probabilities"]), 1, atol=1e-4) for answer in answers)
    assert all(np.argmax(answer["probabilities"]) == answer["digit"] for answer in answers)
    return np.mean([answer["digit"] for answer in answers] == digits.labels)


async def trained_to(client, step):
    while (status := await get_status(client))["step"] < step:
        assert status["state"] == "training"
    return status


@pytest.mark.sockets
@pytest.mark.slow
async def test_answers_become_right_while_training_goes_on():
    _, unseen = train_digits.load_digits()
    some = train_digits.Digits(unseen.images[:100], unseen.labels[:100])
    async with served(epochs=10_000) as (client, _):
        before = await get_status(client)
        await accuracy(client, some)
        after = await get_status(client)
        assert before["step"] < after["step"]
        await trained_to(client, 200)
        assert await accuracy(client, some) >= 0.9
        assert (await get_status(client))["state"] == "training"


@pytest.mark.sockets
async def test_an_image_is_taken_flat_or_in_rows():
    _, unseen = train_digits.load_digits()
    async with served(epochs=1) as (client, training):
        await training
        image = unseen.images[0] * 16
        assert await read(client, image.tolist()) == await read(client, image.reshape(8, 8).tolist())
        done = {"state": "trained", "step": 45, "loss": 0, "images": 2, "runs": 2}
        assert await get_status(client) | {"loss": 0} == done


@pytest.mark.sockets
async def test_the_server_stops_in_the_middle_of_training_and_requests_and_leaves_nothing():
    with no_leaks():
        async with served(epochs=10_000) as (client, _):
            await trained_to(client, 1)
            waiting = [asyncio.create_task(read(client, [0] * 64)) for _ in range(20)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        await asyncio.sleep(0)  # closed sockets are let go of in the loop's next turn


@pytest.mark.sockets
async def test_the_clients_of_a_load_share_runs_and_their_latencies_are_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serve_digits, "CLIENTS", (1, 64))
    picture = tmp_path / "latencies.png"
    async with served(epochs=1) as (client, training):
        await training
        async with client.get("/status") as response:
            url = str(response.url.origin())
        await serve_digits.measure_load(url, 100, picture)
        status = await get_status(client)
    assert status["images"] == 1 + 100 + 64 + 100
    assert status["runs"] < 200
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("  1 clients")
    assert second.startswith(" 64 clients")
    assert last == f"the latencies are drawn in {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_curve_rises_where_latencies_do_and_has_a_line_for_each_decade():
    points = [latency_curve.Point(1, 1e3, 0.001, 0.01), latency_curve.Point(4, 1e3, 0.01, 0.1)]
    picture = latency_curve.draw(points)
    for color, latencies in [(latency_curve.BLUE, (1e3, 1e4)), (latency_curve.RED, (1e4, 1e5))]:
        rows, columns = np.nonzero((picture == color).all(2))
        left, right = rows[columns == columns.min()].mean(), rows[columns == columns.max()].mean()
        wanted = [latency_curve.scale(each, 1e3, 1e5, latency_curve.BOTTOM, latency_curve.TOP) for each in latencies]
        np.testing.assert_allclose([left, right], wanted, atol=3)
    grey = (picture[:, latency_curve.RIGHT - 4] == latency_curve.GREY).all(1)
    assert grey.sum() == 2 * 3
    one_point = latency_curve.draw(points[:1])
    assert (one_point < 128).any()


# Streaming


@pytest.mark.sockets
@pytest.mark.slow
async def test_a_stream_is_scored_whole_and_no_faster_than_the_net_can_read():
    with no_leaks():
        report = await stream_source.stream(3000, epochs=5)
        assert report.scored == 3000
        assert report.accuracy >= 0.9
        assert report.most_waiting <= stream_source.CAPACITY
        await asyncio.sleep(0)


@pytest.mark.sockets
async def test_a_message_of_another_size_ends_the_stream_with_the_reason():
    graph = af.Graph()
    with graph.as_default():
        queue = af.FIFOQueue(4, [af.float32], shapes=[[64]])
    async with af.Session(graph=graph) as session:
        live = session.queue(queue)
        async with (
            stream_source.listening(live) as url,
            aiohttp.ClientSession() as client,
            client.ws_connect(url) as socket,
        ):
            await socket.send_bytes(bytes(256))
            await socket.send_bytes(bytes(3))
            message = await socket.receive()
            assert message.extra == "send 64 float32 at a time"
        assert [image.sum() async for image in live] == [0]


BAD = {
    "not JSON": (b"{", "the body is not JSON"),
    "not text": (b"\xff\xfe\xfa", "the body is not JSON"),
    "too deep": (b"[" * 50_000, "the body is not JSON"),
    "no object": (b"[1]", 'the body has no "image"'),
    "no image": (b'{"picture": []}', 'the body has no "image"'),
    "too short": (b'{"image": [1, 2, 3]}', "the image has shape [3]"),
    "ragged": (b'{"image": [[1, 2], [3]]}', "the rows of the image differ in length"),
    "text": (json.dumps({"image": ["1"] * 64}).encode(), "the image holds something that is not a number"),
    "truths": (json.dumps({"image": [True] * 64}).encode(), "the image holds something that is not a number"),
    "huge": (json.dumps({"image": [10**400] * 64}).encode(), "the image holds something that is not a number"),
    "NaN": (json.dumps({"image": [float("nan")] * 64}).encode(), "a pixel is not between 0 and 16"),
    "too bright": (json.dumps({"image": [255] * 64}).encode(), "a pixel is not between 0 and 16"),
}


@pytest.mark.sockets
async def test_bad_input_is_refused_with_what_to_send_instead():
    async with served(epochs=1) as (client, _):
        for name, (body, complaint) in BAD.items():
            async with client.post("/predict", data=body) as response:
                assert response.status == 400, name
                error = (await response.json())["error"]
                assert error == f"{complaint}: {serve_digits.MEND}", name
        async with client.post("/predict", data=b" " * 100_000) as response:
            assert response.status == 413


@pytest.mark.sockets
async def test_a_training_that_failed_is_told_and_raised_when_the_server_stops(monkeypatch):
    async def fail(*arguments):
        raise ArithmeticError("lost")

    monkeypatch.setattr(serve_digits, "train", fail)

    async def look():
        async with served(epochs=1) as (client, _):
            assert (await get_status(client))["state"] == "failed: lost"
            assert len((await read(client, [0] * 64))["probabilities"]) == 10

    with pytest.raises(ArithmeticError, match="lost"):
        await look()


# The documents


def test_contributing_lists_every_module_layer_by_layer():
    house = {path.stem for path in (ROOT / "aioflow").glob("[!_]*") if path.suffix == ".py" or path.is_dir()}
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [house.intersection(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"])]
    lines = re.findall(r"^- ((?:`\w+`(?:, )?)+):", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert [set(re.findall(r"\w+", line)) for line in lines] == [layer for layer in layers if layer]


@pytest.fixture
def worked_example(tmp_path, monkeypatch):
    """The op that CONTRIBUTING.md adds, its sample and its test, as modules; they are gone afterwards."""
    for name, block in zip(["hypot", "hypot_sample", "hypot_test"], blocks("CONTRIBUTING.md", "python"), strict=True):
        (tmp_path / f"{name}.py").write_text(block.replace("aioflow.kernels.math.hypot", "hypot"))
    monkeypatch.syspath_prepend(tmp_path)
    with contextlib.ExitStack() as stack:
        for name in ("hypot", "hypot_sample", "hypot_test"):
            stack.callback(sys.modules.pop, name, None)
        stack.callback(REGISTRY.pop, "hypot", None)
        stack.callback(samples.SAMPLES.pop, "hypot", None)
        importlib.import_module("hypot_sample")
        yield importlib.import_module("hypot_test")


async def test_the_worked_example_of_contributing_passes_what_the_registry_asks(worked_example):
    test_registry.test_values_are_those_of_the_reference("hypot")
    test_registry.test_real_shapes_and_dtypes_refine_the_static_ones("hypot")
    test_registry.test_kernels_keep_their_promises("hypot")
    await test_registry.test_gradients_agree_with_differences_to_second_order("hypot")
    tests = [getattr(worked_example, name) for name in dir(worked_example) if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
