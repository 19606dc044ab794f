"""A handful of the jobs of planted.py: each planted cause has to be found, and none made up."""

import os
import subprocess
import sys
from pathlib import Path

import planted
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "chaos"))
from driver.network import HOSTS, TwoHosts
from driver.sandbox import CLONE_NEWIPC, libc

TRIES = 3  # other work on this machine may hold a rank up, too, and the report tells that


@pytest.mark.parametrize("kind", planted.KINDS)
def test_what_was_planted_is_what_the_report_says(kind):
    verdicts = []
    for seed in range(1, TRIES + 1):
        right, verdict = planted.attempt(kind, seed)
        if right:
            return
        verdicts.append(verdict)
    pytest.fail("\n".join(verdicts))


LINK = """
import sys, time
import numpy as np
import ronde

ronde.init()
gradient = np.ones(100_000, np.float32)
for step in range(8):
    time.sleep(0.01)
    ronde.allreduce(gradient, name="gradient")
    ronde.mark_step()
"""


@pytest.fixture
def two_hosts():
    """Two pretended hosts with a slow link between them."""
    hosts = TwoHosts()
    try:
        hosts.__enter__()
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        shape = ("root", "tbf", "rate", "50mbit", "burst", "16kb", "latency", "100ms")
        for host in range(2):
            if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", *shape):
                pytest.skip("tc cannot slow a link down here")
        yield hosts
    finally:
        hosts.__exit__()


def test_a_slow_link_is_what_the_report_says(two_hosts, tmp_path):
    (tmp_path / "script.py").write_text(LINK)
    secret = tmp_path / "secret"
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    settings = {
        "RONDE_SIZE": "2",
        "RONDE_JOB_ID": f"link-{os.getpid()}",
        "RONDE_RENDEZVOUS": f"{HOSTS[0]}:29778",
        "RONDE_NETWORK_INTERFACE": "link0",
        "RONDE_SECRET_FILE": str(secret),
        "RONDE_TIMELINE": str(tmp_path / "trace.json"),
    }
    ranks = [
        subprocess.Popen(
            ["nsenter", "-t", str(holder.pid), "-n", "--", sys.executable, tmp_path / "script.py"],
            env={**os.environ, **settings, "RONDE_RANK": str(rank)},
            preexec_fn=lambda: libc.unshare(CLONE_NEWIPC),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, holder in enumerate(two_hosts.holders)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, errors
    verdict = planted.verdict_of(sorted(tmp_path.glob("trace.rank*.json")), tmp_path)
    assert "Moving data blocks for" in verdict
    assert "holds the others up" not in verdict
