"""A headless Chromium over the DevTools pipe, with nothing but the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Texts that stick out of their figure by more than two pixels.
STRAY = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 2 || box.right > frame.right + 2
        || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
  }).map(text => text.textContent);
})"""

# Elements that stick out of the page, those that scroll in a place of their own aside. The width is that
# of the screen: a phone widens innerWidth when something does not fit.
WIDE = """[...document.querySelectorAll('main *')].filter(e =>
  !e.closest('.scroll') && !e.closest('svg') && e.getBoundingClientRect().right > %d + 1
).map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"""
PATIENCE = 60.0  # seconds for any one answer


def find():
    """Path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page; commands are answered in order, events are kept."""

    def __init__(self, executable):
        self._folder = tempfile.TemporaryDirectory(prefix="cavity-browser-", ignore_cleanup_errors=True)
        self._events, self._buffer, self._number = [], b"", 0
        theirs_in, self._write = (_high(fd) for fd in os.pipe())
        self._read, theirs_out = (_high(fd) for fd in os.pipe())

        def wire():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self._process = subprocess.Popen(
            [
                executable,
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            preexec_fn=wire,  # noqa: PLW1509 (the child only renumbers two pipes)
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def open(self, url, width, height=900, dark=False):
        """Load a page at a width in CSS pixels; returns the addresses it asked for beside its own."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while not any(e["method"] == "Page.loadEventFired" for e in self._events):
            self._receive(deadline)
        self.evaluate("1")  # later events of the load have arrived before this answer
        asked = [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [address for address in asked if address != url and not address.startswith("data:")]

    def messages(self):
        """Errors and warnings of the console since the page was opened."""
        found = [e["params"]["entry"]["text"] for e in self._events if e["method"] == "Log.entryAdded"]
        return found + [str(e["params"]) for e in self._events if e["method"] == "Runtime.exceptionThrown"]

    def evaluate(self, expression):
        """Value of a JavaScript expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path):
        """The whole page as a PNG file."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def ask(self, method, **parameters):
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _receive(self, deadline):
        """The next message; events are kept."""
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                raise TimeoutError("The browser does not answer.")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("The browser has gone.")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message

    def close(self):
        """End the browser that this object started."""
        try:
            self._session = None
            self.ask("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()


def _high(fd):
    """The same pipe under a number above those the browser listens on."""
    new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return new
