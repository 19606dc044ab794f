"""An elastic job across its epochs: its timeline, report, metrics and log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time

import jobs
import pytest

KILLED = """
    import os, signal, sys, time, urllib.request
    import numpy as np
    import ronde

    ronde.init()
    state = ronde.elastic.ArrayState(sum=np.zeros(4), step=0)
    port = int(os.environ.get("RONDE_METRICS_PORT", "0"))

    def scrape(name):
        if port:
            url = f"http://127.0.0.1:{port + ronde.local_rank()}/metrics"
            page = urllib.request.urlopen(url, timeout=10).read().decode()
            path = f"{sys.argv[1]}/{name}.worker{os.environ['RONDE_WORKER']}"
            with open(path, "w") as file:
                file.write(page)

    @ronde.elastic.run
    def train(state):
        while state.step < 60 or ronde.size() < 3:  # until a new worker has joined
            if state.step == 20 and os.environ["RONDE_WORKER"] == "2":
                os.kill(os.getpid(), signal.SIGKILL)
            state.sum += ronde.allreduce(np.ones(4), name="gradient")
            state.step += 1
            ronde.mark_step()
            if state.step == 15:
                scrape("before")
            time.sleep(0.02)
            state.commit()
        scrape("after")

    train(state)
"""


def events_named(events, beginning):
    """The events whose names begin so, without those of the report's own heads."""
    return [event for event in events if str(event.get("name", "")).startswith(beginning)]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of three workers, of which one is killed and replaced: (folder, output)."""
    folder = tmp_path_factory.mktemp("job")
    options = ["--min-np", "1", "--timeline", str(folder / "trace.json")]
    options += ["--metrics-port", str(jobs.free_ports(3))]
    (folder / "script.py").write_text(textwrap.dedent(KILLED))
    command = [sys.executable, str(folder / "script.py"), str(folder)]
    status, output = jobs.finish(jobs.launch(command, 3, None, options), jobs.LIMIT_S)
    assert status == 0, output
    return folder, output


def test_the_merged_trace_has_a_row_for_each_worker_and_one_for_the_job(job):
    folder, output = job
    events = json.loads((folder / "trace.json").read_text())
    names = {event["args"]["name"] for event in events if event.get("name") == "process_name"}
    assert "epochs of the job" in names, output
    workers = {int(name.split()[1]) for name in names if name.startswith("worker ")}
    assert workers == {1, 2, 3, 4}
    assert {event["name"] for event in events_named(events, "epoch ")} >= {"epoch 1", "epoch 2"}
    (died,) = events_named(events, "worker 2 died")
    assert "killed by signal 9" in died["args"]["why"]
    assert events_named(events, "worker 4 joined")
    recoveries = events_named(events, "RECOVERY")
    assert {event["pid"] for event in recoveries} >= {1, 3}  # the survivors' rows
    spans = [event["ph"] for event in events if event["pid"] in (1, 3)]
    assert spans.count("B") == spans.count("E")  # also of operations that had failed
    assert [event for event in events if event["pid"] == 2 and event["ph"] == "B"]


def test_the_report_says_who_died_and_what_the_recovery_cost(job):
    folder, _ = job
    command = [sys.executable, "-m", "ronde", "timeline", "report", str(folder / "trace.json")]
    done = subprocess.run(
        [*command, "-o", str(folder / "report.html")],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "worker 2 died: (pid" in text
    assert re.search(r"Recovery to epoch 2: [\d.]+ ms", text), text
    assert "1 worker died, 1 joined, 0 left" in text
    assert "1 recovery took" in text
    assert "worker 2 died" in (folder / "report.html").read_text()


def samples_of(folder, name, worker):
    """The samples of a worker's page by their names with labels."""
    page = (folder / f"{name}.worker{worker}").read_text()
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    return {key: float(value) for key, value in lines}


def test_a_workers_counters_go_on_across_epochs(job):
    folder, _ = job
    for worker in (1, 3):
        before = samples_of(folder, "before", worker)
        after = samples_of(folder, "after", worker)
        counters = [key for key in before if "_total{" in key or "_count{" in key]
        assert counters
        assert all(f'worker="{worker}"' in key for key in counters)
        assert [key for key in counters if after.get(key, -1) < before[key]] == []
        own = f'{{worker="{worker}"}}'
        assert before[f"ronde_epoch{own}"] == 1
        assert before[f"ronde_recoveries_total{own}"] == 0
        assert after[f"ronde_epoch{own}"] == 3
        assert after[f"ronde_recoveries_total{own}"] == 1
        assert 0 < after[f"ronde_recovery_seconds_sum{own}"] < 30
        assert after[f"ronde_steps_total{own}"] >= 59
        assert after[f"ronde_operations_in_flight{own}"] == 0


def test_lines_of_the_log_name_worker_and_epoch(job):
    _, output = job
    assert re.search(r"ronde worker [13] epoch 1 warning: ", output), output


def test_top_shows_the_newest_epoch_and_the_dead(job):
    folder, _ = job
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "top", "-n", "1", str(folder / "trace.json")],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Epoch 3 of the job" in done.stdout
    assert re.search(r"worker 2 +died in epoch 1: \(pid \d+\) was killed", done.stdout)
    assert re.search(r"worker 4 +rank 2", done.stdout)


def doctor(job):
    """(exit status, output) of ronde doctor for that job."""
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "doctor", "--job", str(job)],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def doctor_until(job, text):
    """What doctor says of the job, once that has the text."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status, output = doctor(job)
        if status == 0 and text in output:
            return output
        time.sleep(0.1)
    pytest.fail(f"doctor never said {text!r}; at last: {output}")


WAITING = """
    import os, signal, sys, time
    import numpy as np
    import ronde

    ronde.init()
    state = ronde.elastic.ArrayState(sum=np.zeros(4), step=0)

    @ronde.elastic.run
    def train(state):
        while True:
            if os.path.exists(sys.argv[1]) and os.environ["RONDE_WORKER"] == "2":
                os.kill(os.getpid(), signal.SIGKILL)
            state.sum += ronde.allreduce(np.ones(4), name="gradient")
            time.sleep(0.01)
            state.commit()

    train(state)
"""


def test_doctor_follows_a_job_by_its_launcher_also_while_no_epoch_runs(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(WAITING))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "kill")]
    options = ["--min-np", "2", "--on-failure", "blacklist"]
    options += ["--blacklist-cooldown-range", "300", "600"]
    job = jobs.launch(command, 2, None, options)
    try:
        output = doctor_until(job.pid, 'allreduce "gradient"')
        assert f"elastic, epoch 1; its launcher: pid {job.pid}\n" in output
        assert re.search(r"rank 1 \(worker 2\), pid \d+ on .*: works", output), output
        name = re.search(r"job (\w+): elastic", output).group(1)
        (tmp_path / "kill").touch()
        # Its host gets no workers for a while, so that the other one has to leave, too.
        output = doctor_until(name, "the launcher waits for the next epoch: waiting for 2 workers")
        assert re.search(r"worker 2: is gone since epoch 1: .* was killed by signal 9", output)
    finally:
        job.terminate()
        jobs.end(job, 60)
