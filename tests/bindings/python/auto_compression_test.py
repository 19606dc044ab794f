"""Compression "auto" on a slow link, between real processes on two pretended hosts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "chaos"))
from driver.network import HOSTS, TwoHosts
from driver.sandbox import CLONE_NEWIPC, libc

SCRIPT = """
import json, sys
import ronde, ronde.torch as hvd
import torch

hvd.init()
gradient = torch.randn((512, 512), generator=torch.Generator().manual_seed(hvd.rank()))
facts = {}
for accuracy in ("lossless", "safe", "aggressive"):
    for step in range(6):
        mean = hvd.allreduce(gradient, name=accuracy, compression=f"auto:accuracy={accuracy}")
    everyone = hvd.allgather(mean.flatten()[None], name="same")
    exact = hvd.allreduce(gradient, name="exact")
    error = float((mean - exact).norm() / exact.norm())
    facts[accuracy] = {"alike": bool((everyone == everyone[0]).all()), "error": error}
print(json.dumps(facts))
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
        shape = ("root", "tbf", "rate", "100mbit", "burst", "32kb", "latency", "100ms")
        for host in range(2):
            if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", *shape):
                pytest.skip("tc cannot slow a link down here")
        yield hosts
    finally:
        hosts.__exit__()


def test_auto_compresses_on_a_slow_link_within_its_class_and_alike_everywhere(two_hosts, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    secret = tmp_path / "secret"
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    settings = {
        "RONDE_SIZE": "2",
        "RONDE_JOB_ID": f"auto-{os.getpid()}",
        "RONDE_RENDEZVOUS": f"{HOSTS[0]}:29779",
        "RONDE_NETWORK_INTERFACE": "link0",
        "RONDE_SECRET_FILE": str(secret),
        "RONDE_TIMELINE": str(tmp_path / "trace.json"),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            ["nsenter", "-t", str(holder.pid), "-n", "--", sys.executable, tmp_path / "script.py"],
            env={**os.environ, **settings, "RONDE_RANK": str(rank)},
            preexec_fn=lambda: libc.unshare(CLONE_NEWIPC),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, holder in enumerate(two_hosts.holders)
    ]
    for rank in ranks:
        out, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, errors
        facts = json.loads(out)
        assert all(one["alike"] for one in facts.values()), facts
        assert facts["lossless"]["error"] == 0
        assert 0 < facts["safe"]["error"] < 0.01
        assert facts["aggressive"]["error"] > 0.005
    trace = next(tmp_path.glob("trace.rank0*.json")).read_text()
    assert "compression auto: 1.05 MB" in trace
    assert '"wire_bytes"' in trace
    assert '"decompress_us"' in trace
