"""The connections of ranks on two hosts, counted in /proc: by `ronde run --max-connections`."""

from __future__ import annotations

import re
import resource

import pytest

from clusters.two_hosts import run

RANKS = 6
EXCHANGE = """
import os
import time
import numpy as np
import ronde

def sockets():
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            pass
    return found

ronde.init()
rank, size = ronde.rank(), ronde.size()
before = sockets()
for turn in range(20):
    mine = np.arange(size * 1000, dtype=np.int64) + rank * 10**6 + turn
    got, _ = ronde.alltoall(mine, name="all")
    first = np.arange(rank * 1000, rank * 1000 + 1000) + turn
    assert (got == np.concatenate([first + peer * 10**6 for peer in range(size)])).all()
    total = ronde.allreduce(np.full(5, rank, np.int64), op=ronde.Sum, name="sum")
    assert (total == size * (size - 1) // 2).all()
most = int(os.environ.get("RONDE_MAX_CONNECTIONS") or size)
limit = time.monotonic() + 20
while sockets() - before > most and time.monotonic() < limit:
    time.sleep(0.01)
print("connections", sockets() - before)
time.sleep(3)  # a rank that leaves closes its connections
"""


def connections(output: str) -> list[int]:
    return [int(number) for number in re.findall(r"connections (\d+)", output)]


@pytest.mark.parametrize("most", [1, 3])
def test_idle_connections_beyond_the_limit_are_closed(hosts, tmp_path, most):
    options = ("--max-connections", str(most), "--backend", "tcp")
    status, output, errors = run(hosts, tmp_path, EXCHANGE, *options, np=str(RANKS))
    assert status == 0, errors
    counted = connections(output)
    assert len(counted) == RANKS
    assert all(number <= most for number in counted), output


def test_without_a_limit_all_connections_stay(hosts, tmp_path):
    status, output, errors = run(hosts, tmp_path, EXCHANGE, "--backend", "tcp", np=str(RANKS))
    assert status == 0, errors
    assert connections(output) == [RANKS - 1] * RANKS


def test_a_low_hard_limit_of_open_files_is_an_error_with_the_number_that_is_needed(hosts, tmp_path):
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))\n"
    status, _, errors = run(hosts, tmp_path, limited + "import ronde\nronde.init()\n")
    assert status != 0
    assert re.search(r"this rank needs up to \d+ open files, .* hard limit is 90; raise it", errors)


def test_a_low_soft_limit_is_raised(hosts, tmp_path):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (90, {most}))
import ronde
ronde.init()
print("raised", resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 90)
"""
    status, output, errors = run(hosts, tmp_path, script)
    assert status == 0, errors
    assert output.count("raised True") == 2


@pytest.mark.parametrize("value", ["-1", "some"])
def test_a_limit_that_is_no_number_is_refused_before_any_rank_starts(hosts, tmp_path, value):
    status, output, errors = run(hosts, tmp_path, EXCHANGE, f"--max-connections={value}")
    assert status != 0
    assert f'--max-connections "{value}" is not valid; allowed: whole numbers' in errors
    assert output == ""
