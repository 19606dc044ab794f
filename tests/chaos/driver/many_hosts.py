"""A job of many hosts on this machine: its start, its connections, and how news of a loss spread.

Each pretended host is a network namespace with a link to one bridge. Prints one JSON line:

- start_s: from the start of the first process until the last has its first sum;
- connections, descriptors, resident_mib: of one rank, after some sums; the least, the median and
  the most of all ranks. Connections are TCP connections to other hosts;
- messages, with --messages: those of one rank until all have met, likewise; it logs more then;
- told_ms, with --kill or --cut: from the signal until the last survivor has its error;
- direct_ms, with --direct beside --kill: likewise where each process has a TCP connection with the
  killed one, and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import statistics
import sys
from pathlib import Path

from driver.job import Job, now_us
from driver.network import Namespaces
from driver.sandbox import CLONE_NEWIPC, Sandbox, call, libc

ESTABLISHED = "01"
FAN_OUT = 8  # core/protocol/tree.cc
MESSAGES = re.compile(r"ranks met in \d+ ms; rank \d+ had (\d+) messages")
PORT = 29778
DIRECT = Path(__file__).with_name("direct_links.py")


class ManyHosts(Namespaces):
    """Hosts on one bridge."""

    def connect(self) -> None:
        call("ip", "link", "add", "bridge0", "type", "bridge")
        call("ip", "link", "set", "bridge0", "up")
        for host in range(self.hosts):
            here, there = ["name", f"host{host}"], ["name", "link0", *self.space(host)]
            call("ip", "link", "add", *here, "type", "veth", "peer", *there)
            call("ip", "link", "set", f"host{host}", "master", "bridge0", "up")
            if not self.use(host, f"{self.address(host)}/16"):
                raise SystemExit(f"host {host} cannot be connected")

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        call("ip", "link", "delete", "bridge0")

    @staticmethod
    def address(host: int) -> str:
        return f"10.78.{host // 200}.{host % 200 + 1}"


def _connections(pid: int) -> int:
    """TCP connections of a process, in the namespace that it is in."""
    inodes = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == ESTABLISHED:
            inodes.add(f"socket:[{fields[9]}]")
    folder = Path(f"/proc/{pid}/fd")
    return sum(os.readlink(entry) in inodes for entry in folder.iterdir())


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _spread(values: list[float]) -> list[float]:
    return [round(one, 1) for one in (min(values), statistics.median(values), max(values))]


def _holdings(job: Job) -> dict[str, list[float]]:
    pids = [job.pid(rank) for rank in range(job.size)]
    return {
        "connections": _spread([_connections(pid) for pid in pids]),
        "descriptors": _spread([len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]),
        "resident_mib": _spread([_resident_mib(pid) for pid in pids]),
    }


def _messages(job: Job) -> list[float]:
    found = [MESSAGES.search(job.errors(rank)) for rank in range(job.size)]
    return _spread([float(one[1]) for one in found if one is not None])


def _told_ms(job: Job, lost: list[int], at_us: int, limit: float) -> float:
    """The time until the last survivor's error, which must name a lost rank."""
    survivors = [rank for rank in range(job.size) if rank not in lost]
    job.wait_for("failed", survivors, limit)
    last = at_us
    for rank in survivors:
        for failed in job.events("failed", rank)[:1]:
            last = max(last, failed["at_us"])
            if failed.get("about") not in lost:
                job.complain(f"rank {rank} was told: {failed['message']}")
    return round((last - at_us) / 1000, 1)


def _meeting(hosts: ManyHosts, host: int) -> str:
    return f"{hosts.address(host)}:{PORT}"


def _tree(hosts: ManyHosts, ranks: int, host: int) -> str:
    """RONDE_RENDEZVOUS_TREE for the ranks of a host, as `ronde run` sets it."""
    above = [_meeting(hosts, (host - 1) // FAN_OUT)] if host > 0 else []
    return " ".join([f"{ranks}x{hosts.hosts}", _meeting(hosts, host), *above])


def _make_job(hosts: ManyHosts, arguments: argparse.Namespace) -> Job:
    job = Job(arguments.worker.resolve(), arguments.hosts * arguments.ranks, "many")
    secret = Path("/tmp/secret")
    secret.write_text("5" * 64)
    secret.chmod(0o600)
    job.environment.update(
        RONDE_RENDEZVOUS=_meeting(hosts, 0),
        RONDE_NETWORK_INTERFACE="link0",
        RONDE_SECRET_FILE=str(secret),
        RONDE_START_TIMEOUT_MS=str(int(arguments.limit * 1000)),
        RONDE_LOG_LEVEL="debug" if arguments.messages else "warning",
    )
    return job


def measure(hosts: ManyHosts, arguments: argparse.Namespace) -> tuple[Job, dict[str, object]]:
    """Runs one job."""
    job = _make_job(hosts, arguments)
    lasts = 3600 if arguments.kill is not None or arguments.cut is not None else 2
    began = now_us()
    for rank in range(job.size):
        host = rank // arguments.ranks
        what = ["sums", f"run_ms={int((arguments.limit + lasts) * 1000)}"]
        job.start_rank(
            rank,
            what,
            hosts.prefix(host),
            before=lambda: libc.unshare(CLONE_NEWIPC),
            RONDE_RENDEZVOUS_TREE="" if arguments.flat else _tree(hosts, arguments.ranks, host),
        )
    found: dict[str, object] = {"hosts": arguments.hosts, "ranks": arguments.ranks}
    if not job.wait_for("first", list(range(job.size)), arguments.limit):
        return job, found
    last = max(event["at_us"] for event in job.events("first"))
    found["start_s"] = round((last - began) / 1e6, 2)
    found.update(_holdings(job))
    if arguments.messages:
        found["messages"] = _messages(job)
    if arguments.kill is not None:
        at_us = job.signal(arguments.kill, signal.SIGKILL)
        found["told_ms"] = _told_ms(job, [arguments.kill], at_us, 30)
    elif arguments.cut is not None:
        first = arguments.cut * arguments.ranks
        at_us = now_us()
        call("ip", "link", "set", f"host{arguments.cut}", "down")
        found["told_ms"] = _told_ms(job, list(range(first, first + arguments.ranks)), at_us, 30)
    return job, found


def measure_direct(hosts: ManyHosts, arguments: argparse.Namespace) -> float:
    """The news of a death where each process has a connection with the dead one."""
    job = Job(DIRECT, arguments.hosts * arguments.ranks, "direct")
    where = [hosts.address(arguments.kill // arguments.ranks), str(PORT), str(arguments.kill)]
    for rank in range(job.size):
        job.start_rank(rank, where, hosts.prefix(rank // arguments.ranks))
    job.wait_for("first", list(range(job.size)), arguments.limit)
    at_us = job.signal(arguments.kill, signal.SIGKILL)
    told = _told_ms(job, [arguments.kill], at_us, 30)
    job.finish()
    return told


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worker", type=Path, required=True, help="ronde_chaos_worker")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2, help="on each host")
    parser.add_argument("--limit", type=float, default=120, help="seconds to start (120)")
    parser.add_argument("--flat", action="store_true", help="all ranks meet at rank 0")
    parser.add_argument("--messages", action="store_true", help="count those of the rendezvous")
    parser.add_argument("--kill", type=int, help="a rank to kill")
    parser.add_argument("--direct", action="store_true", help="compare with direct connections")
    parser.add_argument("--cut", type=int, help="a host whose link goes down")
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sandbox = Sandbox(arguments.worker)
    if not sandbox.isolated:
        print("no namespaces here", file=sys.stderr)
        return 77
    with ManyHosts(arguments.hosts) as hosts:
        job, found = measure(hosts, arguments)
        if "told_ms" not in found:
            for rank in range(job.size):
                job.signal(rank, signal.SIGKILL)
        job.finish()
        if arguments.direct and arguments.kill is not None:
            found["direct_ms"] = measure_direct(hosts, arguments)
    sandbox.sweep()
    print(json.dumps(found))
    for complaint in job.complaints[:10]:
        print(complaint, file=sys.stderr)
    return 1 if job.complaints else 0
