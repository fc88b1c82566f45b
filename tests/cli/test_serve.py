"""`aioflow serve`: a server as a process, with one worker and with several."""

import argparse
import asyncio
import contextlib
import gc
import json
import re
import signal
import ssl
import time
import urllib.error
import urllib.request

import grpc
import grpc.aio
import numpy as np
import pytest

import aioflow as af
from aioflow import cli, errors
from aioflow.cli.serve import collect_seldom
from aioflow.cli.serve_cluster import add_cluster, replicas_of
from aioflow.net.transport import authority
from aioflow.net.transport.credentials import client_tls
from tests.cli.test_cluster import SECRET, running
from tests.serving.inference_proto import message

ROWS = json.dumps({"instances": [[1, 2], [3, 4]]}).encode()


async def save(directory, factor, version):
    """A model that multiplies by a variable."""
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        y = x * af.Variable(float(factor))
        async with af.Session(graph=graph) as session:
            await session.run(af.global_variables_initializer())
            signature = af.saved_model.Signature({"x": x}, {"y": y})
            await af.saved_model.save(session, directory, {"serving_default": signature}, version=version)


@pytest.fixture
async def model(tmp_path):
    directory = tmp_path / "scale"
    await save(directory, 2, 1)
    await save(directory, 3, 2)
    return directory


def ask(url, path, body=None, tls=None, **headers):
    """The status and the JSON of an answer."""
    request = urllib.request.Request(f"{url}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, context=tls) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with contextlib.closing(error):
            return error.code, json.loads(error.read())


async def ask_by_grpc(address, credentials=None, **options):
    """The rows of an answer by gRPC."""
    open_channel = grpc.aio.insecure_channel if credentials is None else grpc.aio.secure_channel
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 2], "contents": {"fp32_contents": [1, 2, 3, 4]}}
    request = message("ModelInferRequest")(model_name="scale", inputs=[tensor])
    async with open_channel(*(each for each in (address, credentials) if each is not None)) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        found = message("ModelInferResponse").FromString(await call(request.SerializeToString(), **options))
    gc.collect()  # which ends the thread of gRPC
    return np.frombuffer(found.raw_output_contents[0], np.float32).tolist()


def url_in(line):
    return re.fullmatch(r"serving scale \(version 2\) at (https?://127\.0\.0\.1:\d+)( by 2 processes)?\n", line)[1]


@pytest.mark.slow
@pytest.mark.real
def test_a_server_serves_versions_and_labels_to_those_with_its_token_and_ends_cleanly(model, tmp_path):
    files = [tmp_path / "other", tmp_path / "token"]
    for file, secret in zip(files, (SECRET[::-1], SECRET), strict=True):
        file.write_text(secret)
        file.chmod(0o600)
    tokens = [option for file in files for option in ("--token-file", file)]
    options = ["--label", "scale:stable=1", *tokens, "--access-log", "--metrics", "--drain-delay", "0"]
    with running("serve", "--model", f"scale={model}", "--port", "0", *options) as process:
        url = url_in(process.stdout.readline())
        assert ask(url, "/v2/health/ready") == (200, {"ready": True})
        assert ask(url, "/v1/models/scale:predict", ROWS)[0] == 401
        shown = {"Authorization": f"Bearer {SECRET}"}
        assert ask(url, "/v1/models/scale:predict", ROWS, **shown) == (200, {"predictions": [[3, 6], [9, 12]]})
        path = "/v1/models/scale/labels/stable:predict"
        assert ask(url, path, ROWS, **shown) == (200, {"predictions": [[2, 4], [6, 8]]})
        assert ask(url, path, ROWS, Origin="http://example.org", **shown)[0] == 403
        with urllib.request.urlopen(urllib.request.Request(f"{url}/metrics", headers=shown)) as response:
            assert b'aioflow_rows_total{model="scale"} 4.0' in response.read()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["status"] for line in lines] == [200, 401, 200, 200, 403, 200]
    assert {key: lines[3][key] for key in ("method", "path", "model", "version", "rows")} == {
        "method": "POST", "path": path, "model": "scale", "version": 1, "rows": 2,
    }  # fmt: skip
    assert SECRET not in log


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("secret", [None, SECRET])
def test_with_tls_a_client_shows_a_certificate_or_else_the_token(secret, model, tmp_path):
    authority.init(tmp_path / "ca", [])
    options = ["--port", "0", "--tls", tmp_path / "ca", "--drain-delay", "0"]
    if secret is not None:
        (tmp_path / "token").write_text(secret)
        (tmp_path / "token").chmod(0o600)
        options += ["--token-file", tmp_path / "token"]
    with running("serve", "--model", f"scale={model}", *options) as process:
        url = url_in(process.stdout.readline())
        assert url.startswith("https://")
        anonymous, known = client_tls(tmp_path / "ca", None), client_tls(tmp_path / "ca")
        if secret is None:
            with pytest.raises(OSError, match=r"(?i)certificate|reset|closed|EOF|pipe"):
                ask(url, "/v1/models/scale:predict", ROWS, anonymous)
            answer = ask(url, "/v1/models/scale:predict", ROWS, known)
        else:
            assert ask(url, "/v1/models/scale:predict", ROWS, anonymous)[0] == 401
            answer = ask(url, "/v1/models/scale:predict", ROWS, anonymous, Authorization=f"Bearer {secret}")
        assert answer == (200, {"predictions": [[3, 6], [9, 12]]})
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(url, "/v2/health/live", tls=ssl.create_default_context())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.real
def test_workers_share_a_port_a_file_and_metrics_and_end_together(model, tmp_path):
    (tmp_path / "models.toml").write_text('[models.scale]\ndirectory = "scale"\nlabels = {old = 1}')
    options = ["--config", tmp_path / "models.toml", "--port", "0", "--drain-delay", "3"]
    with running("serve", *options, "--workers", "2", "--metrics") as process:
        url = url_in(process.stdout.readline())
        for _ in range(20):
            assert ask(url, "/v1/models/scale:predict", ROWS) == (200, {"predictions": [[3, 6], [9, 12]]})
        assert ask(url, "/v1/models/scale/labels/old:predict", ROWS) == (200, {"predictions": [[2, 4], [6, 8]]})
        with urllib.request.urlopen(f"{url}/metrics") as response:  # of whichever process
            assert b'aioflow_rows_total{model="scale"} 42.0' in response.read()
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        assert process.communicate(timeout=60) == ("", "")
        assert time.monotonic() - start < 2 * 3  # they wait at the same time
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.long
async def test_workers_share_a_port_of_grpc_with_tls_and_the_token(model, tmp_path):
    token, certificates = tmp_path / "token", tmp_path / "ca"
    token.write_text(SECRET)
    token.chmod(0o600)
    assert cli.main(["ca", "init", str(certificates)]) == 0
    options = ["--token-file", token, "--tls", certificates, "--workers", "2", "--drain-delay", "0"]
    with running("serve", "--model", f"scale={model}", "--port", "0", "--grpc-port", "0", *options) as process:
        line = await asyncio.to_thread(process.stdout.readline)
        address = re.search(r" at https://127\.0\.0\.1:\d+ and grpcs://(127\.0\.0\.1:\d+) by 2 processes\n", line)[1]
        credentials = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
        shown = [("authorization", f"Bearer {SECRET}")]
        for _ in range(4):
            assert await ask_by_grpc(address, credentials, metadata=shown) == [3, 6, 9, 12]
        with pytest.raises(grpc.aio.AioRpcError, match="must show the server's token"):
            await ask_by_grpc(address, credentials)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.communicate) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--model", "scale"], "'scale' must be NAME=DIR, as digits=models/digits"),
        (["--model", "a=b", "--label", "a:b"], "'a:b' must be NAME:LABEL=VERSION, as digits:stable=3"),
        (["--model", "a=b", "--workers", "0"], "'0' must be a number above 0"),
    ],
)
def test_options_that_cannot_be_understood_are_named(options, text, capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", *options])
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--model", "a=b", "--model", "a=c"], "a model is named twice: a, a"),
        (["--model", "a=b", "--label", "c:stable=1"], "--label c:stable: there is no --model c=DIR"),
        (["--model", "a=b", "--host", "0.0.0.0"], "can be reached from other machines"),
        (["--model", "a=/nowhere/at/all"], "/nowhere/at/all"),
        ([], "there is nothing to serve: give --model NAME=DIR, or --config FILE"),
        (["--model", "a=b", "--replicas", "2"], "--replicas needs --cluster"),
        (["--model", "a=b", "--cluster", "ws://127.0.0.1:1"], "--replicas must say how many there are"),
        (["--model", "a=b", "--cluster", "/nowhere/at/all"], "--cluster: "),
    ],
)
def test_options_that_cannot_work_are_refused(options, text, capsys, monkeypatch):
    monkeypatch.delenv("AIOFLOW_TOKEN", raising=False)
    assert cli.main(["serve", "--port", "0", *options]) == 1
    assert text in capsys.readouterr().err


def test_the_options_of_a_cluster_name_a_replica_on_each_of_its_tasks(tmp_path):
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"ps": ["a:1"], "worker": ["b:1", "c:1", "d:1"]}))

    def places(*options):
        parser = argparse.ArgumentParser()
        add_cluster(parser)
        return [(each.target, each.tasks) for each in replicas_of(parser.parse_args(["--cluster", *options]))]

    tasks = [("/job:worker/task:0",), ("/job:worker/task:1",), ("/job:worker/task:2",)]
    assert places(str(file)) == list(zip(["ws://b:1", "ws://c:1", "ws://d:1"], tasks, strict=True))
    assert places(str(file), "--replicas", "1", "--cluster-tls", "tls") == [("wss://b:1", tasks[0])]
    assert places(str(file), "--job", "ps") == [("ws://a:1", ("/job:ps/task:0",))]
    assert places("ws://head:1", "--replicas", "2") == [("ws://head:1", tasks[0]), ("ws://head:1", tasks[1])]
    for options, text in [
        (("--replicas", "4"), "has 3 tasks, so there cannot be 4"),
        (("--job", "chief"), "there is no job 'chief'"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            places(str(file), *options)


def test_a_server_looks_for_garbage_seldom_and_not_among_what_it_has_loaded():
    thresholds = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold()[0] == 10_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
