"""Headless Chromium, driven by the DevTools protocol over a pipe: loads pages, runs scripts."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """A context manager: one browser with one page."""

    def __init__(self, folder, width=1280, height=900):
        """`folder` gets the browser's profile."""
        self._next = 0
        self._buffer = b""
        self._loaded = set()  # loaders whose documents are complete
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()

        def place_pipes():  # Chromium reads commands from 3 and answers on 4
            os.dup2(os.dup(from_us), 3)
            os.dup2(os.dup(to_us), 4)

        # Copies beyond 4, so that placing one pipe does not close the other.
        from_us, to_us = (self._above(end) for end in (from_us, to_us))
        self._process = subprocess.Popen(
            [
                PROGRAM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
                f"--user-data-dir={folder}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4, from_us, to_us),
            preexec_fn=place_pipes,
        )
        os.close(from_us)
        os.close(to_us)
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    @staticmethod
    def _above(end):
        copy = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 5)
        os.close(end)
        return copy

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _read(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._from, 1 << 16)
            if not chunk:
                raise ConnectionError("the browser ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(message)
        event = message.get("params", {})
        if message.get("method") == "Page.lifecycleEvent" and event["name"] == "load":
            self._loaded.add(event["loaderId"])
        return message

    def _call(self, method, session=None, **parameters):
        self._next += 1
        request = {"id": self._next, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._next:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def call(self, method, **parameters):
        """The result of a command to the page."""
        return self._call(method, self._session, **parameters)

    def open(self, address):
        """Loads the address, all of it: at its end, a page gives the focus to what #name names."""
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise ConnectionError(f"{address}: {answer['errorText']}")
        while answer["loaderId"] not in self._loaded:
            self._read()

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return result["result"].get("value")

    def wait_for(self, script, limit_s=150):
        """Runs the expression until it is true; its last value at the limit."""
        end = time.monotonic() + limit_s
        while not (value := self.run(script)) and time.monotonic() < end:
            time.sleep(0.1)
        return value

    def press(self, key, modifiers=0):
        """Presses and lets go of a key, as the keyboard does: what has the focus gets it.

        Key: its name in KeyboardEvent.key. Modifiers: 8 is Shift.
        """
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}.get(key)
        facts = {"key": key, "modifiers": modifiers}
        facts["windowsVirtualKeyCode"] = code or ord(key)
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def screenshot(self, path):
        image = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(image))
