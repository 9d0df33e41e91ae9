"""A real Chromium without a window, driven by its own protocol over a pipe; no driver of versions to match.

https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60
"""Seconds until an answer is given up."""


def found() -> str | None:
    """The browser of this machine; `LASTCALL_CHROMIUM` names another."""
    named = os.environ.get("LASTCALL_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="lastcall-chromium-")
        heard, says = os.pipe()
        hears, said = os.pipe()
        # The protocol has the descriptors 3 (commands) and 4 (answers).
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--mute-audio",
            "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank",
        ]  # fmt: skip
        shell = f'exec "$@" 3<&{heard} 4>&{said}'
        self.process = subprocess.Popen(
            ["/usr/bin/env", "bash", "-c", shell, "bash", program, *flags],
            pass_fds=(heard, said),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(heard)
        os.close(said)
        self._says, self._hears, self._rest, self._number = says, hears, b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End it, and forget its profile."""
        with suppress(OSError):
            self._session = None
            self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._says)
        os.close(self._hears)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are kept."""
        self._number += 1
        said = {"id": self._number, "method": method, "params": params}
        if self._session:
            said["sessionId"] = self._session
        data = json.dumps(said).encode() + b"\0"
        while data:
            data = data[os.write(self._says, data) :]
        while True:
            heard = self._heard()
            if heard.get("id") == self._number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']['message']}")
                return heard["result"]
            self.events.append(heard)

    def _heard(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._hears], [], [], PATIENCE)
            more = os.read(self._hears, 1 << 20) if ready else b""
            if not more:
                raise OSError("the browser is gone, or hangs")
            self._rest += more
        one, self._rest = self._rest.split(b"\0", 1)
        return json.loads(one)

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of that name, also one that came before."""
        for place, event in enumerate(self.events):
            if event.get("method") == method:
                return self.events.pop(place)
        while True:
            heard = self._heard()
            if heard.get("method") == method:
                return heard
            self.events.append(heard)

    def view(
        self, width: int = 1280, height: int = 800, *, dark: bool = False, scale: float = 1
    ) -> None:
        """How large the page is seen, and in which colours."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path | str, *, anew: bool = True) -> None:
        """Show a file, and wait until it is there."""
        url = str(path) if "://" in str(path) else Path(path).resolve().as_uri()
        if anew:
            self.send("Page.navigate", url="about:blank")
            self.wait("Page.loadEventFired")
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """What an expression in the page comes to; promises are awaited."""
        done = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )  # fmt: skip
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:800])
        return done["result"].get("value")

    def settled(self) -> None:
        """Wait for two frames: what was asked for is painted then."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key: str, code: int = 0, text: str = "") -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed
            )  # fmt: skip

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self.send("Input.insertText", text=text)

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        """A screenshot, of what is seen or of the whole page."""
        self.settled()
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))
        return path

    def pdf(self, path: Path) -> Path:
        """The page as it prints, on A4."""
        data = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69,
                         preferCSSPageSize=True)  # fmt: skip
        path.write_bytes(base64.b64decode(data["data"]))
        return path

    def faults(self) -> list[str]:
        """What went wrong in the page since it was opened: exceptions, refused resources, warnings."""
        self.run("0")
        said: list[str] = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                said.append(json.dumps(params)[:400])
            elif event["method"] == "Log.entryAdded":
                said.append(params["entry"]["text"])
        return said

    def requests(self) -> list[str]:
        """The addresses that the page asked for since it was opened."""
        self.run("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
