"""`ronde timeline report` on the dumps of real jobs that failed."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time

import jobs

JOB = """
    import os, signal, sys, time
    import numpy as np
    import ronde

    ronde.init()
    for step in range(200):
        for i in range(3):
            if ronde.rank() == 1 and step == 20 and i == 1:
                time.sleep(0.5)  # the others wait by then
                os.kill(os.getpid(), signal.SIGKILL)
            ronde.allreduce(np.ones(100, np.float32), name=f"layer{i}")
        ronde.mark_step()
"""
HANG = """
    import os, sys, time
    import numpy as np
    import ronde

    ronde.init()
    ronde.allreduce(np.ones(100, np.float32), name="first")
    end = time.monotonic() + 60
    while ronde.rank() == 1 and not os.path.exists(sys.argv[1]) and time.monotonic() < end:
        time.sleep(0.1)
    ronde.allreduce(np.ones(100, np.float32), name="awaited")
"""


def report(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "timeline", "report", *map(str, arguments)],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    return done.returncode, re.sub(r"\s+", " ", done.stdout), done.stderr


def test_the_rank_that_was_killed_is_named_with_what_the_others_waited_for(run_job, tmp_path):
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    trace = tmp_path / "trace.json"
    environment = {"RONDE_DUMP_DIR": str(dumps)}
    status, output = run_job(JOB, 3, environment=environment, options=["--timeline", str(trace)])
    assert status != 0, output
    page = tmp_path / "page.html"
    status, text, errors = report(dumps, "-o", page)
    assert status == 0, errors
    assert "The job failed at rank 1:" in text
    assert 'allreduce "layer1"' in text
    assert "no dump of rank 1" in text
    assert 'allreduce "layer1"' in re.sub(r"&quot;", '"', page.read_text())
    status, text, errors = report(dumps, trace, "-o", page)
    assert status == 0, errors
    assert text.index("The job failed at rank 1:") < text.index("Verdict")
    assert '"cause":"failure"' in page.read_text()


def test_the_rank_that_does_not_submit_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(HANG))
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    environment = {"RONDE_DUMP_DIR": str(dumps), "RONDE_STALL_WARNING_SECONDS": "1"}
    command = [sys.executable, str(script), str(tmp_path / "go")]
    job = jobs.launch(command, 3, environment)
    end = time.monotonic() + 60
    while len(list(dumps.glob("*.jsonl"))) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.2)  # each is written at once
    status, text, errors = report(dumps, "-o", tmp_path / "page.html")
    (tmp_path / "go").touch()
    ended, output = jobs.finish(job)
    assert ended == 0, output
    assert status == 0, errors
    assert "Rank 1 (pid" in text
    assert 'has not submitted allreduce "awaited"' in text


def test_a_folder_without_dumps_is_refused_by_name(tmp_path):
    status, _, errors = report(tmp_path, "-o", tmp_path / "page.html")
    assert status == 2
    assert str(tmp_path) in errors
