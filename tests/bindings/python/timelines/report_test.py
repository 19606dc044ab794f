"""`ronde timeline report` on real jobs, and its page in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time

import jobs
import pytest
from browser import PROGRAM as BROWSER
from browser import Browser

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
        timeout=480,
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
        status, output = jobs.finish(jobs.launch(command, 3, options=options))
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
    assert 'Rank 1 made the difference, in "forward"' in text
    status, _, errors = report(traces[0], command=("timeline", "diff"))
    assert status == 2
    assert "AFTER" in errors


LOADING = """
    import sys
    import time
    from pathlib import Path

    import numpy as np
    import ronde

    ronde.init()
    load_s = 0
    for step in range(16):
        began = time.monotonic()
        with ronde.mark_span("load"):
            time.sleep(0.03)
        load_s += time.monotonic() - began
        with ronde.mark_span("compute"):
            time.sleep(0.01)
        ronde.allreduce(np.ones(1000, np.float32), name="g")
        ronde.mark_step()
    Path(__file__).with_name(f"load_s.{ronde.rank()}").write_text(str(load_s))
"""


@pytest.fixture(scope="module")
def loading_job(tmp_path_factory, launched):
    """A folder with the trace of a job whose ranks all load slowly."""
    folder = tmp_path_factory.mktemp("loading")
    launched(LOADING, folder, slow=NOBODY)
    return folder


def test_a_loader_that_is_slow_on_all_ranks_is_what_the_report_says(loading_job, tmp_path):
    page = tmp_path / "page.html"
    status, text, errors = report(loading_job / "trace.json", "-o", page)
    assert status == 0, errors
    verdict = re.sub(r"\s+", " ", text)
    told = r'([\d.]+) ms of ([\d.]+) ms of each step is your span "load" \(on all ranks\)'
    load_ms, step_ms = map(float, re.search(told, verdict).groups())
    assert 29 < load_ms < step_ms, text
    assert re.search(r"Spans per step.*\n.*\n +load .*\n +compute ", text), text
    assert "share the" not in verdict, "ranks that sleep lack no cores"


def test_programs_read_report_diff_and_doctor_as_json(loading_job, slow_job):
    status, text, errors = report(loading_job / "trace.json", "--json")
    assert status == 0, errors
    told = json.loads(text)
    assert (told["version"], told["kind"], told["size"], told["steps"]) == (1, "report", 3, 15)
    spans = {span["name"]: span for span in told["spans"]}
    most = [float((loading_job / f"load_s.{rank}").read_text()) * 1000 / 15 for rank in range(3)]
    assert all(29 < ms < most[rank] for rank, ms in enumerate(spans["load"]["own_ms"])), spans
    assert "span" in {finding["cause"] for finding in told["findings"]}
    assert len(told["ranks"]) == len(told["unmarked_ms"]) == 3
    traces = [loading_job / "trace.json", slow_job / "trace.json"]
    status, text, errors = report(*traces, "--json", command=("timeline", "diff"))
    assert status == 0, errors
    told = json.loads(text)
    assert told["kind"] == "diff"
    assert {"name", "before_ms", "after_ms", "p", "counts"} == set(told["step"])
    status, text, errors = report("--json", command=("doctor",))
    assert status == 0, errors
    told = json.loads(text)
    assert told["kind"] == "doctor"
    assert any(plane["usable"] for plane in told["data_planes"])
    assert {"text", "bites"} == set(told["limits"][0])
    status, text, errors = report("--json", "--settings", command=("doctor",))
    assert status == 0, errors
    assert "RONDE_TIMELINE" in {setting["name"] for setting in json.loads(text)["settings"]}


def test_top_names_the_slow_rank_while_the_job_runs(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(TRAINING.replace("range(16)", "range(10_000)")))
    trace = tmp_path / "trace.json"
    command = [sys.executable, str(path), "1"]
    job = jobs.launch(command, 3, options=["--timeline", str(trace)])
    text = ""
    end = time.monotonic() + 100
    while "Rank 1 (" not in text and job.poll() is None and time.monotonic() < end:
        time.sleep(0.5)
        _, text, _ = report(trace, "-n", 1, command=("top",))
    still_running = job.poll() is None
    job.terminate()
    _, output = jobs.finish(job)
    assert still_running, output
    assert "Rank 1 (" in text
    assert re.search(r"rank 2 +\d+ +[\d.]+ [KM]?B", text.split("Rates")[1]), text


def test_top_waits_for_the_trace_and_says_so(tmp_path):
    trace = tmp_path / "none.json"
    status, _, errors = report(trace, "-n", 1, "--wait", 0.3, command=("top",))
    assert status == 2
    assert f"Waiting for {trace}, at most 0.3 s (--wait)" in errors
    assert f"{trace} is not there after 0.3 s" in errors
    assert "--help" not in errors


def test_what_is_no_trace_is_refused_by_name(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    status, _, errors = report(path, "-o", tmp_path / "page.html")
    assert status == 2
    assert str(path) in errors
    assert not (tmp_path / "page.html").exists()


def browse(page, width, folder, pictures):
    """(DOM, console) of the page in a window of that width; a screenshot goes to `pictures`."""
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / f'profile{width}'}",
        f"--window-size={width},1400",
        "--enable-logging=stderr",
    ]
    shot = pictures / f"report-{width}.png"
    done = subprocess.run(
        [BROWSER, *options, f"--screenshot={shot}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=480,
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
def test_the_page_draws_its_charts_without_an_error(slow_job, tmp_path, pictures, width):
    page = tmp_path / "page.html"
    page.write_text((slow_job / "page.html").read_text().replace("</body>", PRESS_PLUS + "</body>"))
    dom, console = browse(page, width, tmp_path, pictures)
    assert console == []
    assert (pictures / f"report-{width}.png").stat().st_size > 10_000
    assert 'data-drawn="yes"' in dom
    for chart in ("split", "bars", "picture", "histograms"):
        part = re.search(rf'<div id="{chart}".*?</section>', dom, re.DOTALL).group()
        assert part.count("<rect") >= 3, f"{chart} is empty"
    assert 'data-cause="straggler" data-rank="1"' in dom
    whole, zoomed = (
        re.search(r": (.+?) to (.+?) of", text).groups()
        for text in (
            re.search(r'aria-label="(step[^"]*), all ranks', dom).group(1) + " of",
            re.search(r'data-zoomed="([^"]*)"', dom).group(1) + " of",
        )
    )
    assert zoomed == whole
    assert zoomed[0] != "0"


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_spans_have_their_names_on_the_page(loading_job, tmp_path, pictures):
    page = tmp_path / "page.html"
    status, _, errors = report(loading_job / "trace.json", "-o", page)
    assert status == 0, errors
    with Browser(tmp_path / "profile") as browser:
        browser.open(page.as_uri())
        assert browser.wait_for("document.documentElement.dataset.drawn === 'yes'")
        labels = "[...document.querySelectorAll('#zoom .label')].map((one) => one.textContent)"
        assert sorted(set(browser.run(labels))) == ["compute", "load"]
        assert "load" in browser.run("document.querySelector('#spans tbody').textContent")
        browser.run("document.getElementById('picture-title').scrollIntoView()")
        browser.screenshot(pictures / "report-spans.png")


CUT = """
[...document.querySelectorAll("td, th, caption, p, li")].filter((cell) => {
  const box = cell.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((cell) => cell.textContent).slice(0, 5)
"""


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [360, 412])
def test_phones_show_every_cell_of_the_tables(slow_job, tmp_path, pictures, width):
    with Browser(tmp_path / "profile") as page:
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=True,
        )
        page.open((slow_job / "page.html").as_uri())
        assert page.wait_for("document.documentElement.dataset.drawn === 'yes'")
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.run("document.querySelectorAll('td').length") > 20
        assert page.run(CUT) == []
        page.screenshot(pictures / f"report-phone-{width}.png")


SHOWN = "document.getElementById('zoom-said').textContent"
FOCUSED = "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText)"


def tab_to(page, wanted):
    """Presses Tab until `wanted`, of the page's language, holds; the texts that had the focus."""
    passed = []
    for _ in range(200):
        page.press("Tab")
        if page.run(wanted):
            return passed
        passed.append(page.run(FOCUSED))
    raise AssertionError(f"Tab never gets to {wanted}: {passed}")


def seen_after(page, key, modifiers=0):
    """The stretch of the step that the picture shows after the key."""
    page.press(key, modifiers)
    return re.search(r": (.+) to (.+) of (.+)", page.run(SHOWN)).groups()


@pytest.fixture
def keyboard(slow_job, tmp_path):
    """The slow job's page, in a browser of which only keys are used."""
    with Browser(tmp_path / "profile") as page:
        page.open((slow_job / "page.html").as_uri())
        assert page.wait_for("document.documentElement.dataset.drawn === 'yes'")
        yield page


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_the_picture_zooms_and_moves_by_keys(keyboard):
    tab_to(keyboard, "document.activeElement.id === 'zoom'")
    zero, whole, span = seen_after(keyboard, "0")
    assert (zero, whole) == ("0", span)
    near = seen_after(keyboard, "+", 8)
    assert near[0] != zero
    assert near[1] != whole
    later = seen_after(keyboard, "ArrowRight")
    assert later != near
    assert seen_after(keyboard, "ArrowLeft") == near
    assert seen_after(keyboard, "-") == (zero, whole, span)
    seen_after(keyboard, "+", 8)
    assert seen_after(keyboard, "0") == (zero, whole, span)


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_everything_that_can_be_used_is_reached_and_worked_by_keys(keyboard):
    passed = tab_to(keyboard, "document.activeElement.id === 'step'")
    assert passed[0] == "Skip to the verdict"
    before = keyboard.run(SHOWN)
    keyboard.press("ArrowDown")
    assert keyboard.run(SHOWN) != before
    for label, times in (("Zoom in", 2), ("Zoom out", 1), ("Earlier", 1), ("Later", 1)):
        tab_to(keyboard, f"document.activeElement.ariaLabel === {label!r}")
        for _ in range(times):
            before = keyboard.run(SHOWN)
            keyboard.press("Enter")
            assert keyboard.run(SHOWN) != before, label
    tab_to(keyboard, "document.activeElement.ariaLabel === 'Show all'")
    zero, whole, span = seen_after(keyboard, "Enter")
    assert (zero, whole) == ("0", span)
    tab_to(keyboard, "document.activeElement.textContent === 'first to last rank'")
    keyboard.press("Enter")
    order = "document.activeElement.parentElement.getAttribute('aria-sort')"
    assert keyboard.run(order) == "descending"
    keyboard.press("Enter")
    assert keyboard.run(order) == "ascending"


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_a_key_opens_the_table_of_a_picture_and_the_skip_link_leads_to_the_verdict(keyboard):
    keyboard.press("Tab")
    keyboard.press("Enter")
    assert keyboard.run("document.activeElement.id") == "verdict"
    tab_to(keyboard, "document.activeElement.tagName === 'SUMMARY'")
    keyboard.press("Enter")
    opened = keyboard.run("document.activeElement.parentElement.open")
    assert opened, f"the focus is on {keyboard.run('document.activeElement.outerHTML')[:300]}"
    rows = "document.activeElement.parentElement.querySelectorAll('tbody tr').length"
    assert keyboard.run(rows) == 3
