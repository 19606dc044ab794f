"""Jobs that torchrun starts on two hosts. The first case runs always, the rest by --all."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)

from support.volume import ALL

from clusters.two_hosts import HOSTS, NAMES

PORT = 29790  # of a network namespace that nobody else is in
C10D = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"n1:{PORT}")
SCRIPTS = {
    "horovod": """
import torch
import ronde.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
add = lambda: float(hvd.allreduce(torch.tensor([rank + 1.0]), op=hvd.Sum))
leave = hvd.shutdown
""",
    "torch": """
import torch
import torch.distributed as dist

dist.init_process_group("ronde")
rank, size = dist.get_rank(), dist.get_world_size()
def add():
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor)
    return float(tensor)
leave = dist.destroy_process_group
""",
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "clusters" / "torchrun.md"
SCRIPTS["both"] = SCRIPTS["horovod"] + SCRIPTS["torch"].replace("leave = ", "end = ")
SUM = """
import os, signal
from pathlib import Path

add()
die = Path(__file__).with_name("die")
if rank == size - 1 and die.exists():
    die.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
print(f"rank {rank} of {size} on {os.uname().nodename}: {add()}\\n", end="")
leave()
"""
FOUR = [f"rank {rank} of 4 on n{rank // 2 + 1}: 10.0" for rank in range(4)]
TWO = [f"rank {rank} of 2 on n{rank + 1}: 3.0" for rank in range(2)]
APIS = pytest.mark.parametrize("api", ["horovod", "torch"])
WARNING = "the job's secret went through torch's store at n1:"


def torchrun(tmp_path, api, *options, ranks=1, text="", agents=C10D):
    """The command that starts a host's ranks; `text`: of another script."""
    script = tmp_path / f"by_{api}.py"
    script.write_text(text or SCRIPTS[api] + SUM)
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    return [*command, "--nproc-per-node", str(ranks), *agents, *options, str(script)]


def run(hosts, commands, **settings):
    """(statuses, sorted lines, errors) of the hosts' commands."""
    settings = {"RONDE_START_TIMEOUT_MS": "30000", "OMP_NUM_THREADS": "1", **settings}
    done = hosts.run_on_all(commands, env={**os.environ, **settings})
    lines = sorted(line for _, out, _ in done for line in out.splitlines())
    return [status for status, _, _ in done], lines, "\n".join(errors for _, _, errors in done)


def test_the_script_of_the_guide_runs_over_two_hosts(hosts, tmp_path):
    (text,) = re.findall(r"^```python[^\n]*\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    statuses, lines, errors = run(hosts, [torchrun(tmp_path, "guide", text=text)] * 2)
    assert (statuses, lines) == ([0, 0], TWO), errors
    assert errors.count(WARNING) == 1


@ALL
@pytest.mark.parametrize("api", list(SCRIPTS))
def test_two_hosts_may_have_two_ranks_each(hosts, tmp_path, api):
    commands = [torchrun(tmp_path, api, ranks=2)] * 2
    statuses, lines, errors = run(hosts, commands, RONDE_LOG_LEVEL="debug")
    assert (statuses, lines) == ([0, 0], FOUR), errors
    assert "control channel: the other ranks came over 2 connections" in errors, errors


@ALL
@pytest.mark.parametrize("api", list(SCRIPTS))
def test_hosts_may_be_numbered_by_hand(hosts, tmp_path, api):
    place = ("--master-addr", "n1", "--master-port", str(PORT))
    commands = [
        torchrun(tmp_path, api, ranks=2, agents=("--node-rank", str(host), *place))
        for host in range(2)
    ]
    statuses, lines, errors = run(hosts, commands)
    assert (statuses, lines) == ([0, 0], FOUR), errors


@ALL
@APIS
def test_a_killed_rank_makes_torchrun_start_all_again(hosts, tmp_path, api):
    (tmp_path / "die").touch()
    command = torchrun(tmp_path, api, "--max-restarts", "1", ranks=2)
    statuses, lines, errors = run(hosts, [command] * 2)
    assert (statuses, lines) == ([0, 0], FOUR), errors
    assert not (tmp_path / "die").exists()


@ALL
@APIS
def test_hosts_may_have_ipv6_addresses_alone(hosts, tmp_path, api):
    hosts.names.write_text("::1 localhost\nfd00::1 n1\nfd00::2 n2\n")
    for host in range(2):
        address = f"fd00::{host + 1}/64"
        assert hosts.run(host, "ip", "address", "flush", "dev", "link0")
        assert hosts.run(host, "ip", "address", "add", address, "dev", "link0", "nodad")
    statuses, lines, errors = run(hosts, [torchrun(tmp_path, api)] * 2)
    assert (statuses, lines) == ([0, 0], TWO), errors


@ALL
def test_a_host_that_calls_itself_127_0_1_1_is_reached(hosts, tmp_path):
    command = torchrun(tmp_path, "torch")
    commands = []
    for name, address in zip(NAMES, HOSTS):
        own = tmp_path / f"hosts.{name}"
        own.write_text(hosts.names.read_text().replace(f"{address} {name}", f"127.0.1.1 {name}"))
        shell = f'mount --bind {own} /etc/hosts; exec "$@"'
        commands.append(["sh", "-c", shell, "sh", *command])
    statuses, lines, errors = run(hosts, commands)
    assert (statuses, lines) == ([0, 0], TWO), errors


@ALL
def test_a_rendezvous_and_a_secret_of_the_user_count(hosts, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("5a" * 32)
    secret.chmod(0o600)
    settings = {"RONDE_RENDEZVOUS": "n1:29791", "RONDE_SECRET_FILE": str(secret)}
    for api in ("horovod", "torch"):
        statuses, lines, errors = run(hosts, [torchrun(tmp_path, api)] * 2, **settings)
        assert (statuses, lines) == ([0, 0], TWO), errors
        assert WARNING not in errors


@ALL
@APIS
def test_a_secret_on_one_host_alone_is_an_error(hosts, tmp_path, api):
    command = torchrun(tmp_path, api)
    commands = [["env", f"RONDE_SECRET_FILE={tmp_path}/secret", *command], command]
    statuses, _, errors = run(hosts, commands)
    assert 0 not in statuses
    why = "rank 0 on n1 has RONDE_SECRET_FILE, but rank 1 on n2 has none"
    assert errors.count(f"InvalidArgumentError: {why}") >= 2, errors


@ALL
@APIS
def test_different_secrets_are_named_on_both_hosts(hosts, tmp_path, api):
    commands = []
    for number, name in enumerate(NAMES):
        secret = tmp_path / f"secret.{name}"
        secret.write_text(f"{number}a" * 32)
        secret.chmod(0o600)
        commands.append(["env", f"RONDE_SECRET_FILE={secret}", *torchrun(tmp_path, api)])
    statuses, _, errors = run(hosts, commands)
    assert 0 not in statuses
    why = "rank 0 on n1 and rank 1 on n2 have different secrets: RONDE_SECRET_FILE must hold"
    assert errors.count(f"InvalidArgumentError: {why}") >= 2, errors


@ALL
@APIS
def test_a_missing_interface_is_named(hosts, tmp_path, api):
    settings = {"RONDE_NETWORK_INTERFACE": "ib7"}
    statuses, _, errors = run(hosts, [torchrun(tmp_path, api)] * 2, **settings)
    assert 0 not in statuses
    assert 'InvalidArgumentError: RONDE_NETWORK_INTERFACE="ib7" is not an address' in errors
    assert "n1 has: lo, link0" in errors


@ALL
@APIS
def test_an_interface_that_does_not_reach_the_other_host_is_named(hosts, tmp_path, api):
    for host in range(2):
        ends = ["other0", "type", "veth", "peer", "name", "other1"]
        assert hosts.run(host, "ip", "link", "add", *ends)
        assert hosts.run(host, "ip", "address", "add", f"10.78.0.{host + 1}/24", "dev", "other0")
        for end in ("other0", "other1"):
            assert hosts.run(host, "ip", "link", "set", end, "up")
    settings = {"RONDE_NETWORK_INTERFACE": "other0", "RONDE_START_TIMEOUT_MS": "4000"}
    statuses, _, errors = run(hosts, [torchrun(tmp_path, api)] * 2, **settings)
    assert 0 not in statuses
    assert "TimeoutError: rank 1 could not reach rank 0 at 10.78.0.1:" in errors, errors
    assert "; on n2 the rendezvous is 10.78.0.1:" in errors
    assert "RONDE_NETWORK_INTERFACE chooses another network" in errors


@ALL
def test_a_firewall_before_torchruns_store_is_named(hosts, tmp_path):
    rules = "add table inet t; add chain inet t c { type filter hook output priority 0; };"
    rules += f" add rule inet t c ip daddr {HOSTS[0]} tcp dport != {PORT} drop"
    assert hosts.run(1, "nft", rules)
    settings = {"RONDE_START_TIMEOUT_MS": "4000"}
    statuses, _, errors = run(hosts, [torchrun(tmp_path, "horovod")] * 2, **settings)
    assert 0 not in statuses
    why = "UnavailableError: rank 1 on n2 cannot reach torchrun's store at n1:"
    assert why in errors, errors
