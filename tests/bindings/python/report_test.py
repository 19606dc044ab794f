"""`ronde timeline report` on real jobs, and its page in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time

import conftest
import pytest
from browser import PROGRAM as BROWSER

TRAINING = """
    import sys
    import time

    import numpy as np
    import ronde

    ronde.init()
    slow = int(sys.argv[1])
    for step in range(16):
        with ronde.mark_span("forward"):
            time.sleep(0.06 if ronde.rank() == slow else 0.02)
        handles = [ronde.allreduce_async(np.ones(1000), f"layer{i}") for i in range(3)]
        for handle in handles:
            handle.wait()
        ronde.mark_step()
"""
NOBODY = -1


def report(*arguments, command=("timeline", "report")):
    """(exit status, standard output, standard error) of `ronde timeline report`."""
    done = subprocess.run(
        [sys.executable, "-m", "ronde", *command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def slow_job(tmp_path_factory, launched):
    """A folder with the traces of a job whose rank 1 is slow, and page.html."""
    folder = tmp_path_factory.mktemp("slow")
    launched(TRAINING, folder, slow=1)
    status, text, errors = report(folder / "trace.json", "-o", folder / "page.html")
    assert status == 0, errors
    (folder / "text").write_text(text)
    return folder


@pytest.fixture(scope="module")
def launched():
    """launched(script, folder, slow): runs it on 3 ranks, with its trace in the folder."""

    def run(script, folder, slow):
        path = folder / "script.py"
        path.write_text(textwrap.dedent(script))
        command = [sys.executable, str(path), str(slow)]
        options = ["--timeline", str(folder / "trace.json")]
        status, output = conftest.finish(conftest.launch(command, 3, options=options))
        assert status == 0, output

    return run


def test_a_rank_that_sleeps_in_compute_is_named_with_what_it_does(slow_job):
    text = (slow_job / "text").read_text()
    first = re.sub(r"\s+", " ", text.split("Verdict")[1])
    assert first.lstrip().startswith("1. Rank 1 ("), text
    assert 'its "forward" takes' in first


def test_traces_of_ranks_give_the_same_verdict_as_the_merged_one(slow_job):
    traces = sorted(slow_job.glob("trace.rank*.json"))
    assert len(traces) == 3
    status, text, errors = report(*traces, "-o", slow_job / "other.html")
    assert status == 0, errors
    verdict = (slow_job / "text").read_text().split("\nPaths")[0]
    assert text.split("\nPaths")[0] == verdict


@pytest.fixture(scope="module")
def clean_job(tmp_path_factory, launched):
    """A folder with the traces of a job whose ranks are alike."""
    folder = tmp_path_factory.mktemp("clean")
    launched(TRAINING, folder, slow=NOBODY)
    return folder


def test_a_clean_run_blames_nobody(tmp_path, clean_job):
    status, text, errors = report(clean_job / "trace.json", "-o", tmp_path / "page.html")
    assert status == 0, errors
    assert "holds the others up" not in text, text


def test_diff_says_what_became_slower(slow_job, clean_job):
    traces = [clean_job / "trace.json", slow_job / "trace.json"]
    status, text, errors = report(*traces, command=("timeline", "diff"))
    assert status == 0, errors
    assert re.match(r"Steps became [\d.]+ % slower", text), text
    assert "Most of it is" in text
    status, _, errors = report(traces[0], command=("timeline", "diff"))
    assert status == 2
    assert "AFTER" in errors


def test_top_names_the_slow_rank_while_the_job_runs(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(TRAINING.replace("range(16)", "range(150)")))
    trace = tmp_path / "trace.json"
    command = [sys.executable, str(path), "1"]
    job = conftest.launch(command, 3, options=["--timeline", str(trace)])
    text = ""
    while "Rank 1 (" not in text and job.poll() is None:
        time.sleep(0.5)
        _, text, _ = report(trace, "-n", 1, command=("top",))
    still_running = job.poll() is None
    status, output = conftest.finish(job)
    assert status == 0, output
    assert still_running, text
    assert re.search(r"rank 2 +\d+ +[\d.]+ [KM]?B", text.split("Rates")[1]), text


def test_what_is_no_trace_is_refused_by_name(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    status, _, errors = report(path, "-o", tmp_path / "page.html")
    assert status == 2
    assert str(path) in errors
    assert not (tmp_path / "page.html").exists()


def browse(page, width, folder):
    """(DOM, console) of the page in a window of that width; a screenshot stays in the folder."""
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / f'profile{width}'}",
        f"--window-size={width},1400",
        "--enable-logging=stderr",
    ]
    shot = folder / f"page-{width}.png"
    done = subprocess.run(
        [BROWSER, *options, f"--screenshot={shot}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


# Zooms by a key and leaves what the page says then where the DOM shows it.
PRESS_PLUS = """
<script>
document.getElementById("zoom").dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
document.body.dataset.zoomed = document.getElementById("zoom-said").textContent;
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [500, 1280])
def test_the_page_draws_its_charts_without_an_error(slow_job, tmp_path, width):
    page = tmp_path / "page.html"
    page.write_text((slow_job / "page.html").read_text().replace("</body>", PRESS_PLUS + "</body>"))
    dom, console = browse(page, width, tmp_path)
    assert console == []
    assert 'data-drawn="yes"' in dom
    for chart in ("split", "bars", "picture", "histograms"):
        part = re.search(rf'<div id="{chart}".*?</section>', dom, re.DOTALL).group()
        assert part.count("<rect") >= 3, f"{chart} is empty"
    assert 'data-cause="straggler" data-rank="1"' in dom
    whole, zoomed = (
        re.search(r": (\d\S* \S+) to (\d\S* \S+) of", text).groups()
        for text in (
            re.search(r'aria-label="(step[^"]*), all ranks', dom).group(1) + " of",
            re.search(r'data-zoomed="([^"]*)"', dom).group(1) + " of",
        )
    )
    assert zoomed == whole
    assert zoomed[0] != "0.00 µs"
