"""Ranks on two pretended hosts, with a slow link between them or not."""

import contextlib
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "chaos"))
from driver.network import HOSTS, TwoHosts
from driver.sandbox import CLONE_NEWIPC, libc

CLONE_NEWUTS = 0x04000000
LIMIT_S = 480
PORT = 29778  # of a network namespace that nobody else is in


@contextlib.contextmanager
def two_hosts():
    """The hosts, joined at full speed; skips the test where this machine cannot have them."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(TwoHosts())
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")


@contextlib.contextmanager
def slow_link(rate, burst):
    """The hosts, joined at `rate`, in bursts of `burst`, both as tc has them; skips the test where
    this machine cannot have them."""
    with two_hosts() as hosts:
        shape = ("root", "tbf", "rate", rate, "burst", burst, "latency", "100ms")
        for host in range(2):
            if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", *shape):
                pytest.skip("tc cannot slow a link down here")
        yield hosts


def start_ranks(hosts, script, folder, settings, each=({}, {})):
    """Runs the Python text `script` as one rank on each host; (status, output, errors) of each.

    `settings` are those of both ranks, `each` those of one.
    """
    (folder / "script.py").write_text(script)
    common = {"RONDE_SIZE": "2", "RONDE_JOB_ID": f"two-hosts-{os.getpid()}", **settings}
    common = {"RONDE_RENDEZVOUS": f"{HOSTS[0]}:{PORT}", "OMP_NUM_THREADS": "1", **common}
    ranks = [
        subprocess.Popen(
            ["nsenter", "-t", str(holder.pid), "-n", "--", sys.executable, folder / "script.py"],
            env={**os.environ, **common, **own, "RONDE_RANK": str(rank)},
            preexec_fn=functools.partial(enter_host, rank),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, (holder, own) in enumerate(zip(hosts.holders, each))
    ]
    try:
        told = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return [(rank.returncode, *texts) for rank, texts in zip(ranks, told)]


def enter_host(number):
    """In a child: memory and a name of its own, `node1` or `node2`."""
    libc.unshare(CLONE_NEWIPC | CLONE_NEWUTS)
    name = f"node{number + 1}".encode()
    libc.sethostname(name, len(name))


def write_secret(file, text="5" * 64, mode=0o600):
    """Makes the file of a secret; its path, as RONDE_SECRET_FILE has it."""
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def run_ranks(hosts, script, folder):
    """Runs the Python text `script` as one rank on each host; what each wrote to standard output.

    The ranks leave their traces in `folder`, as trace.rank*.json. One that fails fails the test.
    """
    settings = {
        "RONDE_NETWORK_INTERFACE": "link0",
        "RONDE_SECRET_FILE": write_secret(folder / "secret"),
        "RONDE_TIMELINE": str(folder / "trace.json"),
    }
    told = start_ranks(hosts, script, folder, settings)
    for status, _, errors in told:
        assert status == 0, errors
    return [out for _, out, _ in told]
