"""Two hosts in network namespaces of their own, and what may go wrong between them.

Each pretended host is a namespace with one end of a pair of linked interfaces. Nothing of it lasts
longer than the case.
"""

from __future__ import annotations

import abc
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from driver.case import Case
from driver.job import Job
from driver.sandbox import CLONE_NEWIPC, CLONE_NEWNET, call, libc

if TYPE_CHECKING:
    from typing import Self

HOSTS = ("10.77.0.1", "10.77.0.2")
LIMIT_SECONDS = 12.0


class Namespaces(abc.ABC):
    """Pretended hosts, each a network namespace that a sleeping process holds; a context."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.holders: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for _ in range(self.hosts):
            self.holders.append(
                subprocess.Popen(["sleep", "3600"], preexec_fn=lambda: libc.unshare(CLONE_NEWNET))
            )
        time.sleep(0.05)
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()

    @abc.abstractmethod
    def connect(self) -> None:
        """Gives each host its interfaces."""

    def space(self, host: int) -> list[str]:
        """Where `ip link add` puts an interface of a host."""
        return ["netns", str(self.holders[host].pid)]

    def prefix(self, host: int) -> list[str]:
        """Runs what follows on a host."""
        return ["nsenter", "-t", str(self.holders[host].pid), "-n", "--"]

    def run(self, host: int, *command: str) -> bool:
        """Runs a command on a host; whether it succeeded."""
        return call(*self.prefix(host), *command)

    def use(self, host: int, address: str, link: str = "link0") -> bool:
        """Switches a link, with this address, and the loopback on; whether it could."""
        return (
            self.run(host, "ip", "address", "add", address, "dev", link)
            and self.run(host, "ip", "link", "set", "lo", "up")
            and self.run(host, "ip", "link", "set", link, "up")
        )


class TwoHosts(Namespaces):
    """Two hosts with links link0, link1, ... between them, each a network of its own."""

    def __init__(self, interfaces: int = 1) -> None:
        super().__init__(len(HOSTS))
        self.interfaces = interfaces

    def connect(self) -> None:
        for interface in range(self.interfaces):
            link = f"link{interface}"
            first, second = (["name", link, *self.space(host)] for host in range(2))
            call("ip", "link", "add", *first, "type", "veth", "peer", *second)
            for host, address in enumerate(HOSTS):
                network, _, number = address.rpartition(".0.")
                self.use(host, f"{network}.{interface}.{number}/24", link)

    def start(self, case: Case, job: Job, arguments: list[str]) -> None:
        """Starts the ranks, the first half on the first host."""
        for rank in range(job.size):
            host = self.host_of(job, rank)
            job.start_rank(
                rank, arguments, self.prefix(host), before=lambda: libc.unshare(CLONE_NEWIPC)
            )

    @staticmethod
    def host_of(job: Job, rank: int) -> int:
        return int(rank >= (job.size + 1) // 2)


def prepare(case: Case, sizes: tuple[int, ...] = (2, 3, 4)) -> Job:
    """A job whose ranks are to be started on two hosts."""
    job = case.make_job(sizes=sizes, planes=("auto",))
    case.give_secret(job)
    job.environment.update(
        RONDE_RENDEZVOUS=f"{HOSTS[0]}:29777",
        RONDE_NETWORK_INTERFACE="link0",
    )
    return job


def _cut(hosts: TwoHosts, how: str) -> bool:
    """Breaks the network; whether this machine can do that."""
    if how == "down":
        return hosts.run(0, "ip", "link", "set", "link0", "down")
    if how == "reset":
        return hosts.run(0, "ss", "-K", "dst", HOSTS[1])
    sender = 0 if how == "one-way" else 1
    rules = "add table inet t; add chain inet t c { type filter hook output priority 0; };"
    return hosts.run(sender, "nft", f"{rules} add rule inet t c oifname link0 drop")


def cut(case: Case) -> None:
    """The network between two hosts goes: all ranks name a host beyond it within 12 s."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return None
    with TwoHosts() as hosts:
        job = prepare(case)
        how = case.random.choice(["down", "one-way", "other-way", "reset"])
        case.facts["how"] = how
        elements = case.random.choice([1000, 1_000_000])
        arguments = ["steps", f"seed={case.seed}", f"elements={elements}", "steps=-1"]
        hosts.start(case, job, arguments)
        everyone = list(range(job.size))
        if job.wait_for("ready", everyone):
            time.sleep(case.random.uniform(0, 0.3))
            began = time.monotonic_ns() // 1000
            if not _cut(hosts, how):
                return _skip(case, job)
            job.wait_for("failed", everyone, LIMIT_SECONDS + 3)
            _judge_cut(case, job, began)
        codes = job.finish()
        job.require_codes(codes, {})
    return None


def _skip(case: Case, job: Job) -> None:
    case.facts["skipped"] = f"this machine cannot do {case.facts['how']}"
    for rank in range(job.size):
        job.signal(rank, signal.SIGKILL)
    job.finish()


def _judge_cut(case: Case, job: Job, began: int) -> None:
    last = 0.0
    for failed in (job.events("failed", rank)[:1] for rank in range(job.size)):
        if not failed:
            continue
        seconds = (failed[0]["at_us"] - began) / 1e6
        last = max(last, seconds)
        mine = TwoHosts.host_of(job, failed[0]["rank"])
        if failed[0]["code"] != "rank failure":
            job.complain(f"rank {failed[0]['rank']}: {failed[0]['message']}")
        elif TwoHosts.host_of(job, failed[0]["about"]) == mine and case.facts["how"] != "reset":
            job.complain(f"rank {failed[0]['rank']} blames its own host: {failed[0]['message']}")
    case.facts["latency_ms"] = round(last * 1000)
    if last > LIMIT_SECONDS:
        job.complain(f"it took {last:.1f} s")


def interface_dies(case: Case) -> None:
    """One of two network interfaces dies: the other carries all, and no sum is wrong."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    with TwoHosts(interfaces=2) as hosts:
        job = prepare(case)
        job.environment.update(RONDE_NETWORK_INTERFACE="link0,link1", RONDE_RECONNECT_SECONDS="30")
        elements = case.random.choice([1000, 1_000_000, 4_000_000])
        interface = case.facts["interface"] = case.random.choice(["link0", "link1"])
        comes_back = case.facts["comes_back"] = case.random.choice([False, True])
        job.environment["RONDE_LOG_LEVEL"] = "warning"
        arguments = ["steps", f"seed={case.seed}", f"elements={elements}", "run_ms=8000"]
        arguments += ["tell_every=1000"]
        hosts.start(case, job, arguments)
        everyone = list(range(job.size))
        # One that dies before it was connected has the limit of a first connection.
        if job.wait_for("step", everyone):
            time.sleep(case.random.uniform(0, 0.5))
            host = case.random.choice([0, 1])
            hosts.run(host, "ip", "link", "set", interface, "down")
            time.sleep(3)
            if comes_back:
                hosts.run(host, "ip", "link", "set", interface, "up")
        job.wait_for("done", everyone, 60)
        job.require_codes(job.finish(), {})
        warned = [rank for rank in everyone if "network interface is left out" in job.errors(rank)]
        case.facts["warned"] = warned
        # One interface carries all of a message that is one chunk, and the other may have rested.
        if not warned and elements > 1000:
            job.complain("nobody was warned of the interface")
