"""Ranks on two pretended hosts with a slow link between them."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "chaos"))
from driver.network import HOSTS, TwoHosts
from driver.sandbox import CLONE_NEWIPC, libc

LIMIT_S = 120
PORT = 29778  # of a network namespace that nobody else is in


@contextlib.contextmanager
def slow_link(rate, burst):
    """The hosts, joined at `rate`, in bursts of `burst`, both as tc has them; skips the test where
    this machine cannot have them."""
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(TwoHosts())
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        shape = ("root", "tbf", "rate", rate, "burst", burst, "latency", "100ms")
        for host in range(2):
            if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", *shape):
                pytest.skip("tc cannot slow a link down here")
        yield hosts


def run_ranks(hosts, script, folder):
    """Runs the Python text `script` as one rank on each host; what each wrote to standard output.

    The ranks leave their traces in `folder`, as trace.rank*.json. One that fails fails the test.
    """
    (folder / "script.py").write_text(script)
    secret = folder / "secret"
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    settings = {
        "RONDE_SIZE": "2",
        "RONDE_JOB_ID": f"slow-link-{os.getpid()}",
        "RONDE_RENDEZVOUS": f"{HOSTS[0]}:{PORT}",
        "RONDE_NETWORK_INTERFACE": "link0",
        "RONDE_SECRET_FILE": str(secret),
        "RONDE_TIMELINE": str(folder / "trace.json"),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            ["nsenter", "-t", str(holder.pid), "-n", "--", sys.executable, folder / "script.py"],
            env={**os.environ, **settings, "RONDE_RANK": str(rank)},
            preexec_fn=lambda: libc.unshare(CLONE_NEWIPC),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, holder in enumerate(hosts.holders)
    ]
    try:
        told = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for rank, (_, errors) in zip(ranks, told):
        assert rank.returncode == 0, errors
    return [out for out, _ in told]
