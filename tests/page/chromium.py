"""A headless Chromium, driven through its DevTools protocol over a web socket of tornado, which the page needs.

    with Chromium() as browser:
        page = browser.open(url, width=1280, height=800, scheme="dark")
        page.run("1 + 1")            the value of an expression
        page.console                 what the console was told, by level
        page.requests                every address that was asked for

It is Debian's Chromium, which `make chromium` installs. Where it is missing, `MISSING` says so and tests are skipped by
that name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

PATH = shutil.which("chromium")
MISSING = "Chromium is not installed: make chromium"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip
DEEP_TEXT = """(() => {
  const parts = []
  const walk = (node) => {
    if (node.nodeType == 3) { parts.push(node.data); return }
    if (["SCRIPT", "STYLE"].includes(node.nodeName)) return
    if (node.shadowRoot) walk(node.shadowRoot)
    for (const child of node.childNodes) walk(child)
  }
  walk(%s)
  return parts.join(" ").replace(/\\s+/g, " ")
})()"""

DRAWN = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 300))"
"""After this what a script has changed is on the screen."""
BOX = """(() => {
  const {x, y, width, height} = document.querySelector(%s).getBoundingClientRect()
  return {x: x + window.scrollX, y: y + window.scrollY, width, height, scale: 1}
})()"""


FIELD = """(() => {
  const walk = (node) => {
    if (node.nodeName == "INPUT") return node
    for (const child of [...(node.shadowRoot?.children ?? []), ...node.children]) {
      const found = walk(child)
      if (found) return found
    }
    return null
  }
  const field = walk(document.querySelector(%s))
  field.scrollIntoView({block: "center"})
  const {x, y, width, height} = field.getBoundingClientRect()
  return {x: x + width / 2, y: y + height / 2}
})()"""
"""The middle of the first field under an element, that inside of shadow roots too, after it was scrolled into sight."""


class Chromium:
    """A browser of its own, with an empty profile."""

    def __enter__(self) -> Chromium:
        assert PATH is not None, MISSING
        self._profile = tempfile.TemporaryDirectory(prefix="evenjoin-chromium-", ignore_cleanup_errors=True)
        arguments = [PATH, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = Path(self._profile.name) / "DevToolsActivePort"
        until(lambda: port.exists() and port.read_text().count("\n") >= 1, 60)
        number, path = port.read_text().split("\n")[:2]
        self._loop = asyncio.new_event_loop()
        self._socket = self._loop.run_until_complete(_connected(f"ws://127.0.0.1:{number}{path}"))
        self._number, self._pages = 0, dict[str, Page]()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(20)
        self._loop.close()
        self._profile.cleanup()

    def open(self, url: str, width: int = 1280, height: int = 800, scheme: str = "light") -> Page:
        """A new tab that has loaded a page, and drawn it."""
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Runtime", "Log", "Network", "Page"):
            page.ask(f"{domain}.enable")
        page.size(width, height)
        page.ask("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        page.began = time.monotonic()
        page.ask("Page.navigate", {"url": url})
        page.wait("document.documentElement?.dataset.ready == 'yes'")
        page.opened_s = time.monotonic() - page.began
        return page

    def ask(self, method: str, values: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """Send a command and take its answer; events that come before it go to their pages."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values or {}}
        return self._loop.run_until_complete(self._answer(message | ({"sessionId": session} if session else {})))

    async def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        await self._socket.write_message(json.dumps(message))
        while True:
            text = await asyncio.wait_for(self._socket.read_message(), 60)
            assert text is not None, "Chromium has gone"
            found = json.loads(text)
            if found.get("id") == message["id"]:
                assert "error" not in found, (message["method"], found)
                return dict(found["result"])
            if found.get("sessionId") in self._pages:
                self._pages[found["sessionId"]].hear(found["method"], found["params"])


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.console: list[tuple[str, str]] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.began = self.opened_s = 0.0

    def ask(self, method: str, values: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.ask(method, values, self._session)

    def hear(self, method: str, told: dict[str, Any]) -> None:
        """Take an event in."""
        if method == "Runtime.consoleAPICalled":
            self.console.append((told["type"], " ".join(str(one.get("value", "")) for one in told["args"])))
        elif method == "Runtime.exceptionThrown":
            self.console.append(("error", str(told["exceptionDetails"])))
        elif method == "Log.entryAdded":
            self.console.append((told["entry"]["level"], told["entry"]["text"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(told["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(told["message"])

    @property
    def errors(self) -> list[tuple[str, str]]:
        """What the console was told that is neither information nor a debugging aid."""
        self.run("0")  # takes in what has come
        return [entry for entry in self.console if entry[0] in ("error", "warning", "assert")]

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Until an expression is true."""
        until(lambda: self.run(expression) is True, seconds, expression)

    def text(self, selector: str = "body") -> str:
        """All text under an element, that inside of shadow roots too."""
        return str(self.run(DEEP_TEXT % f"document.querySelector({json.dumps(selector)})"))

    def type(self, text: str, inside: str) -> None:
        """Click into the field under an element, empty it, and type as a person does, letter by letter."""
        at = self.run(FIELD % json.dumps(inside))
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", {"type": kind, **at, "button": "left", "clickCount": 3})
        self._key({"key": "Backspace", "windowsVirtualKeyCode": 8})
        for letter in text:
            self._key({"key": letter, "text": letter})

    def _key(self, key: dict[str, Any]) -> None:
        self.ask("Input.dispatchKeyEvent", {"type": "keyDown", **key})
        self.ask("Input.dispatchKeyEvent", {"type": "keyUp", "key": key["key"]})

    def size(self, width: int, height: int) -> None:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", sizes)

    def picture(self, path: Path, selector: str = "") -> Path:
        """A picture of what is seen, or of one element, as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.run(DRAWN)
        what: dict[str, Any] = {"format": "png"}
        if selector:
            what["clip"] = self.run(BOX % json.dumps(selector))
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", what)["data"]))
        return path

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", {"targetId": self._target})


async def _connected(url: str) -> WebSocketClientConnection:
    return await websocket_connect(url, max_message_size=2**28)


def until(true: Callable[[], bool], seconds: float, what: str = "") -> None:
    """Wait for something that will come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)
