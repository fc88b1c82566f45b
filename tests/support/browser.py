"""A headless Chromium, driven over the DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DESKTOP = (1280, 800)
PHONE = (390, 844)
_LIMIT = 120.0
_BAD = ("error", "warning", "assert")
_UNTIL = """new Promise((done) => {
    const look = () => { let found; try { found = %s } catch {} if (found) done(found); else setTimeout(look, 50) };
    look();
})"""


def find_browser():
    """The command of a browser; None if there is none."""
    found = os.environ.get("AIOFLOW_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    return found or None


class BrowserError(AssertionError):
    """The page or the browser did not do what was expected."""


class Tab:
    """One tab. `console` collects errors and warnings of the page, `requests` the addresses that it has asked for."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self.console = []
        self.requests = []
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self):
        async for message in self._socket:
            data = json.loads(message.data)
            if "id" in data:
                self._answers.pop(data["id"]).set_result(data)
            elif data["method"] == "Runtime.exceptionThrown":
                details = data["params"]["exceptionDetails"]
                self.console.append(details.get("exception", {}).get("description") or details["text"])
            elif data["method"] == "Runtime.consoleAPICalled" and data["params"]["type"] in (
                "error",
                "warning",
                "assert",
            ):
                self.console.append(" ".join(str(each.get("value", "")) for each in data["params"]["args"]))
            elif data["method"] == "Network.requestWillBeSent":
                self.requests.append(data["params"]["request"]["url"])
            elif data["method"] == "Log.entryAdded" and data["params"]["entry"]["level"] in ("error", "warning"):
                entry = data["params"]["entry"]
                self.console.append(f"{entry['text']} {entry.get('url', '')}")

    async def send(self, method, **parameters):
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        data = await answer
        if "error" in data:
            raise BrowserError(f"{method}: {data['error']['message']}")
        return data["result"]

    async def open(self, url):
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def run(self, script):
        """The value of an expression of JavaScript, awaited."""
        result = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    async def until(self, condition):
        """Return the value of an expression when it is true."""
        try:
            async with asyncio.timeout(_LIMIT):
                return await self.run(_UNTIL % condition)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise BrowserError(f"never true: {condition}\non the page: {text[:2000]}\n{self.console}") from None

    async def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def size(self, width, height, dark=False):
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path):
        result = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(Path(path).write_bytes, base64.b64decode(result["data"]))

    async def close(self):
        self._reading.cancel()
        await asyncio.wait([self._reading])


@contextlib.asynccontextmanager
async def browser_tab(command):
    """A tab of a new browser, which ends with the block."""
    with tempfile.TemporaryDirectory() as profile:
        process = await asyncio.create_subprocess_exec(
            command, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--mute-audio",
            "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            url = await _devtools(process)
            async with aiohttp.ClientSession() as client:
                root = url.replace("ws://", "http://").partition("/devtools")[0]
                async with client.get(f"{root}/json/list") as response:
                    page = next(each for each in await response.json() if each["type"] == "page")
                async with client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    tab = Tab(socket)
                    for domain in ("Page", "Runtime", "Log", "Network"):
                        await tab.send(f"{domain}.enable")
                    yield tab
                    await tab.close()
        finally:
            process.kill()
            await process.communicate()


async def _devtools(process):
    async with asyncio.timeout(_LIMIT):
        async for line in process.stderr:
            if b"DevTools listening on" in line:
                return line.decode().split()[-1]
    raise BrowserError("the browser has ended before it listened")
