"""Timelines of real jobs: counters and marks, files in parts, and recording by a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import jobs

STEPS = """
    import os, sys, time
    import numpy as np
    import ronde

    ronde.init()
    for step in range(40):
        handles = [
            ronde.allreduce_async(np.ones((64, 128), np.float32), f"layer{i}")
            for i in range(5)
        ]
        for handle in handles:
            handle.wait()
        time.sleep(0.005)
        ronde.mark_step()
"""
UNTIL = """
    import os, sys, time
    import numpy as np
    import ronde

    ronde.init()
    open(f"{sys.argv[1]}.ready{ronde.rank()}", "w").close()
    over = 0
    end = time.monotonic() + 60
    while over == 0 and time.monotonic() < end:
        stop = float(os.path.exists(sys.argv[1]))
        over = ronde.allreduce(np.array([stop]), name="over")[0]
        ronde.mark_step()
        time.sleep(0.002)
"""


def report(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "timeline", "report", *map(str, arguments)],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_counters_and_arrivals_are_in_the_trace(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run_job(STEPS, 2, options=["--timeline", str(trace), "--compression", "fp16"])
    assert status == 0, output
    events = json.loads(trace.read_text())
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"queue length", "bytes in flight", "throughput in MB/s"} <= counters
    assert "memory copy in GB/s" in counters
    if os.path.exists("/proc/thread-self/schedstat"):
        assert "ready without a core in ms" in counters
    ratios = [e["args"]["value"] for e in events if e.get("name") == "compression ratio"]
    assert ratios
    assert all(1.9 < ratio <= 2 for ratio in ratios)
    lanes = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event.get("name") == "thread_name"
    }
    ready = [event for event in events if event.get("name") == "rank 1 ready"]
    assert len(ready) >= 40 * 5
    assert all(lanes[0, event["tid"]].startswith("allreduce.layer") for event in ready)
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert len(starts) >= 40
    assert starts.keys() == ends.keys()
    for arrow, start in starts.items():
        end = ends[arrow]
        assert start["ts"] <= end["ts"]
        assert {start["pid"], end["pid"]} == {0, 1}
    phases = {
        event["name"]
        for event in events
        if lanes.get((event["pid"], event.get("tid"))) == "phases" and event["ph"] == "B"
    }
    assert phases == {"COMPRESS AND EXCHANGE"}


def test_packing_and_the_algorithm_are_phases_of_their_own(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run_job(STEPS, 2, options=["--timeline", str(trace), "--backend", "tcp"])
    assert status == 0, output
    events = json.loads(trace.read_text())
    lanes = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "phases"
    }
    names = {
        event["name"] for event in events
        if event["ph"] == "B" and (event["pid"], event["tid"]) in lanes
    }  # fmt: skip
    assert len(lanes) == 2
    assert {"PACK", "UNPACK"} < names
    assert "What if" in report(trace, "-o", tmp_path / "page.html")


def test_a_trace_in_parts_is_merged_and_reported_whole(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    environment = {"RONDE_TIMELINE_PART_BYTES": "10K", "RONDE_TIMELINE_PARTS": "1000"}
    options = ["--timeline", str(trace)]
    status, output = run_job(STEPS, 2, environment=environment, options=options)
    assert status == 0, output
    parts = sorted(tmp_path.glob("trace.rank0.part*.json"))
    assert len(parts) >= 2
    for path in parts:
        json.loads(path.read_text())
    text = report(trace, "-o", tmp_path / "page.html")
    assert re.search(r"\b39 steps", text), text
    again = report(*tmp_path.glob("trace.rank*.json"), "-o", tmp_path / "page.html")
    assert re.search(r"\b39 steps", again), again
    newest = [path for path in tmp_path.glob("trace.rank*.json") if path != parts[0]]
    assert "begins with its part 2" in report(*newest, "-o", tmp_path / "page.html")


def trace_until(job, path, wanted):
    """Waits until the rank's trace fits."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.exists() and wanted(path.read_text()):
            return
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)
    raise AssertionError(f"{path} never got there")


def test_a_signal_starts_pauses_and_resumes_the_timeline(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(UNTIL))
    trace = tmp_path / "trace.json"
    environment = {"RONDE_TIMELINE_SIGNAL": "USR1"}
    command = [sys.executable, str(script), str(tmp_path / "stop")]
    job = jobs.launch(command, 2, environment, options=["--timeline", str(trace)])
    paths = [tmp_path / f"trace.rank{rank}.json" for rank in range(2)]
    for rank in range(2):
        trace_until(job, tmp_path / f"stop.ready{rank}", lambda _: True)
    assert not paths[0].exists()
    job.send_signal(signal.SIGUSR1)  # the launcher hands it on
    for path in paths:
        trace_until(job, path, lambda text: '"ALLREDUCE"' in text)
    job.send_signal(signal.SIGUSR1)
    for path in paths:
        trace_until(job, path, lambda text: "recording paused" in text)
    time.sleep(0.3)  # for what was on its way
    sizes = [path.stat().st_size for path in paths]
    time.sleep(0.3)
    assert [path.stat().st_size for path in paths] == sizes
    job.send_signal(signal.SIGUSR1)
    for path, size in zip(paths, sizes, strict=True):
        trace_until(job, path, lambda text, size=size: len(text) > size + 500)
    (tmp_path / "stop").touch()
    status, output = jobs.finish(job)
    assert status == 0, output
    text = report(trace, "-o", tmp_path / "page.html")
    assert "Verdict" in text
    assert "The recording of rank 1 paused 1 time" in " ".join(text.split())


def test_a_timeline_signal_that_asks_for_dumps_already_is_refused(run_job, tmp_path):
    environment = {"RONDE_TIMELINE_SIGNAL": "USR2"}
    options = ["--timeline", str(tmp_path / "trace.json")]
    status, output = run_job("import ronde; ronde.init()", 1, (), environment, options)
    assert status != 0
    assert "RONDE_TIMELINE_SIGNAL=USR2 is the signal that asks for dumps; allowed" in output
    status, output = run_job("import ronde; ronde.init()", 1, (), {"RONDE_TIMELINE_SIGNAL": "USR1"})
    assert status != 0
    assert "needs RONDE_TIMELINE" in output


TRAINING = """
    import ronde
    import ronde.torch as hvd
    import torch

    hvd.init()
    model = torch.nn.Linear(8, 4)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(4):
        optimizer.zero_grad()
        with ronde.mark_span("loss"):  # its end ends no part of training
            loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        optimizer.step()
"""


def test_the_parts_of_training_are_marked_by_the_optimizer(run_job, tmp_path):
    trace = tmp_path / "new" / "folder" / "trace.json"
    status, output = run_job(TRAINING, 2, options=["--timeline", str(trace)])
    assert status == 0, output
    events = json.loads(trace.read_text())
    lanes = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event.get("name") == "thread_name"
    }
    for rank in range(2):
        passes = [
            event for event in events
            if event["pid"] == rank and lanes.get((rank, event.get("tid"))) == "passes"
        ]  # fmt: skip
        begun = [event["name"] for event in passes if event["ph"] == "B"]
        assert begun == ["backward", "update", "data and forward"] * 4
        kinds = "".join(event["ph"] for event in passes if event["ph"] != "M")
        assert kinds.startswith("BE" * 11)
    assert "Verdict" in report(trace, "-o", tmp_path / "page.html")


SETS = """
    import numpy as np
    import ronde

    ronde.init()
    some = ronde.add_process_set([0, 1])
    ronde.allreduce(np.ones(4096, np.float32), name="all")
    if some.included():
        ronde.allreduce(np.ones(4096, np.float32), name="some", process_set=some)
        ronde.mark(f"set {some.process_set_id}")
"""


def test_tracks_of_a_process_set_have_its_number(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run_job(SETS, 3, options=["--timeline", str(trace)])
    assert status == 0, output
    events = json.loads(trace.read_text())
    tracks = {
        (event["pid"], event["args"]["name"]) for event in events
        if event.get("name") == "thread_name"
    }  # fmt: skip
    assert {(rank, "phases of process set 1") for rank in (0, 1)} <= tracks
    assert (2, "phases of process set 1") not in tracks
    assert any(event.get("name") == "set 1" for event in events)
