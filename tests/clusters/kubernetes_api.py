"""A Kubernetes API of the tests: HTTPS, a token, and lists of pods."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-of-the-tests"
NAMESPACE = "team"


def pod(name, ready="True", address=None, service="train", **metadata):
    """An object of the API. `address`: it has this IP, and no name in a Service."""
    spec = {} if address else {"hostname": name, "subdomain": service}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": spec,
        "status": {
            "podIP": address or "10.0.0.1",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": ready},
            ],
        },
    }


def make_certificate(folder: Path) -> None:
    """A certificate for 127.0.0.1 that signs itself: FOLDER/ca.crt and FOLDER/key."""
    folder.mkdir()
    words = ["-nodes", "-days", "2", "-subj", "/CN=kubernetes"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "ca.crt")]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(
        ["openssl", "req", "-x509", *key, *words, *files], check=True, capture_output=True
    )


class Api:
    """Serves until it is closed; a context. `answer` is the status and body of the next lists.

    `cut`: their last byte is not sent.
    """

    cut = False

    def __init__(self, folder: Path) -> None:
        make_certificate(folder)
        (folder / "token").write_text(TOKEN)
        (folder / "namespace").write_text(NAMESPACE)
        self.folder = folder
        self.answer: tuple[int, object] = (200, {"kind": "PodList", "items": []})
        self.queries: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = api.reply(self.path, self.headers.get("Authorization"))
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text[:-1] if api.cut else text)

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def reply(self, path: str, authorization: str | None) -> tuple[int, object]:
        """The answer to one request."""
        if authorization != f"Bearer {TOKEN}":
            return 401, {}
        parts = urlsplit(path)
        if parts.path != f"/api/v1/namespaces/{NAMESPACE}/pods":
            return 404, {}
        self.queries += parse_qs(parts.query)["labelSelector"]
        return self.answer

    def list(self, *pods: object) -> None:
        self.answer = (200, {"kind": "PodList", "items": pods})

    def environment(self) -> dict[str, str]:
        """The variables of a pod."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.server.server_port),
            "SERVICE_ACCOUNT": str(self.folder),
            "POD_SELECTOR": "app=train,role=worker",
        }

    def __enter__(self) -> Api:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def follow(lines, acts):
    """Reads a launcher's lines, and acts on them in turn: pairs of a text and a function.

    Returns the lines as one text, and the texts that never came.
    """
    said, left = [], list(acts)
    for line in lines:
        said.append(line)
        if left and left[0][0] in line:
            left.pop(0)[1]()
    return "".join(said), [text for text, _ in left]
