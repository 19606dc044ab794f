"""The metrics of a running job, by real HTTP requests and as Prometheus reads them."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import sys
import textwrap
import time

import jobs
import pytest

JOB = """
    import os, sys, time
    import numpy as np
    import ronde

    ronde.init()
    end = time.monotonic() + 100
    step = 0
    while True:
        step += 1
        if ronde.rank() == 1:
            time.sleep(0.02)  # the others wait for it
        for i in range(3):
            ronde.allreduce(np.ones(256, np.float32), name=f"t{i}")
        ronde.mark_step()
        over = os.path.exists(sys.argv[1]) or time.monotonic() > end
        if ronde.allreduce(np.array([float(over)]), name="over")[0] > 0:
            break  # all at the same step
    print("steps", step, flush=True)
"""
NUMBER = r"[0-9.eE+-]+|\+Inf"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{((?:{LABEL})(?:,{LABEL})*)\}} ({NUMBER})")


def parse(text):
    """{(name, labels without rank): value}; every line must be of the text format, in its order."""
    samples, types, family = {}, {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in types, f"{family} comes twice"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            suffixes = ("_bucket", "_sum", "_count") if types[family] == "histogram" else ("",)
            assert name in [family + suffix for suffix in suffixes], line
            key = (name, ",".join(part for part in labels.split(",") if "rank=" not in part))
            assert key not in samples, f"{key} comes twice"
            samples[key] = float(value)
    return samples


def ask(port, method="GET", path="/metrics"):
    """(status, headers, body)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def raw(port, data):
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
    return answer


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """(first port, stop) of a job of two ranks, the second of which is slow."""
    folder = tmp_path_factory.mktemp("metrics")
    script = folder / "script.py"
    script.write_text(textwrap.dedent(JOB))
    port = jobs.free_ports(2)
    command = [sys.executable, str(script), str(folder / "stop")]
    process = jobs.launch(command, 2, options=["--metrics-port", str(port)])
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if "ronde_steps_total" in ask(port)[2] and ask(port + 1)[0] == 200:
                break
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    yield port
    (folder / "stop").touch()
    status, output = jobs.finish(process)
    assert status == 0, output
    assert "WARNING" not in output.upper(), output


def wait_for(port, key, least):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        samples = parse(ask(port)[2])
        if samples.get(key, 0) >= least:
            return samples
        time.sleep(0.1)
    raise AssertionError(f"{key} of port {port} did not reach {least}: {samples.get(key)}")


def test_metrics_are_prometheus_text_and_count_what_the_job_does(job):
    status, headers, _ = ask(job)
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = wait_for(job, ("ronde_steps_total", ""), 5)
    ended = samples["ronde_operations_total", 'kind="allreduce"']
    assert samples["ronde_operation_bytes_total", 'kind="allreduce"'] >= 1024 * 3 * 5
    assert samples["ronde_cache_hits_total", ""] >= 4
    assert samples["ronde_cache_misses_total", ""] >= 4
    assert samples["ronde_bundles_total", ""] >= 5
    assert samples["ronde_job_broken", ""] == 0
    assert samples["ronde_operation_latency_seconds_count", 'kind="allreduce"'] <= ended + 4
    later = wait_for(job, ("ronde_steps_total", ""), samples["ronde_steps_total", ""] + 1)
    assert all(
        later[key] >= value
        for key, value in samples.items()
        if key[0].endswith(("_total", "_bucket"))
    )


def test_buckets_add_up_to_the_count(job):
    samples = wait_for(job, ("ronde_steps_total", ""), 1)
    family = "ronde_operation_latency_seconds"
    buckets = [value for (name, _), value in samples.items() if name == family + "_bucket"]
    assert buckets == sorted(buckets)
    assert buckets[-1] == samples[family + "_count", 'kind="allreduce"']
    assert samples[family + "_sum", 'kind="allreduce"'] > 0


def test_the_rank_that_the_others_wait_for_has_the_least_lead(job):
    def lead(port):
        samples = wait_for(port, ("ronde_steps_total", ""), 10)
        kind = 'kind="allreduce"'
        sums, counts = "ronde_arrival_lead_seconds_sum", "ronde_arrival_lead_seconds_count"
        return samples[sums, kind] / samples[counts, kind]

    assert lead(job) > lead(job + 1)


def test_requests_that_make_no_sense_are_refused(job):
    assert ask(job, path="/")[0] == 404
    assert ask(job, method="POST")[0] == 405
    assert ask(job, method="HEAD")[2] == ""
    assert raw(job, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(job, b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 100_000).startswith(b"HTTP/1.1 431 ")
    assert raw(job, bytes(range(256)) * 64).startswith(b"HTTP/1.1 4")
    assert raw(job, b"") == b""


def test_slow_clients_hold_up_neither_others_nor_the_job(job):
    steps = ("ronde_steps_total", "")
    before = parse(ask(job)[2])[steps]
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", job), timeout=30))
            with contextlib.suppress(OSError):  # may have had to make room
                slow.sendall(b"GET /metr")
        assert ask(job)[0] == 200
        wait_for(job, steps, before + 3)


def test_a_port_that_is_taken_costs_a_warning_not_the_job(run_job):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = ["--metrics-port", str(port)]
        status, output = run_job("import ronde; ronde.init(); print('fine')", 1, options=options)
    assert status == 0, output
    assert "fine" in output
    assert f"cannot serve metrics at 127.0.0.1 port {port}" in output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metrics-port", "70000"], '--metrics-port "70000" is not valid'),
        (["--metrics-port", "x"], '--metrics-port "x" is not valid'),
        (["--metrics-port", "2000", "--metrics-address", "here"], "RONDE_METRICS_ADDRESS"),
    ],
)
def test_values_that_do_not_parse_are_errors_that_name_the_setting(run_job, options, said):
    status, output = run_job("import ronde; ronde.init()", 1, options=options)
    assert status != 0
    assert said in output
    assert "allowed" in output


COUNTS = """
import numpy as np
import ronde
ronde.init()
for _ in range(3):
    ronde.allreduce(np.ones(256, np.float32), name="g")
ronde.mark_step()
found = ronde.metrics()
assert found['ronde_operations_total{kind="allreduce"}'] == 3, found
assert found['ronde_operation_bytes_total{kind="allreduce"}'] == 3 * 1024, found
assert found["ronde_job_broken"] == 0
assert found['ronde_operation_latency_seconds_count{kind="allreduce"}'] == 3, found
assert found['ronde_operation_latency_seconds_sum{kind="allreduce"}'] > 0
assert not [name for name in found if "bucket" in name or "rank=" in name]
ronde.shutdown()
try:
    ronde.metrics()
except ronde.NotInitializedError:
    print("counted")
"""


def test_a_script_reads_its_own_counters_without_a_port(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(COUNTS)
    status, output = jobs.finish(jobs.launch([sys.executable, str(script)], 2))
    assert status == 0, output
    assert output.count("counted") == 2
