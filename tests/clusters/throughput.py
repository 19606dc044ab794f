"""Measures allreduces between two hosts of this machine against a plain TCP stream.

    python tests/clusters/throughput.py [--rate 300mbit 1gbit 2.5gbit] [--encryption off on]

The hosts are network namespaces; tc limits the link between them. An allreduce of float32 and a
stream of as many bytes both ways take turns. Prints for each rate the medians, the share of the
stream's rate that the allreduce has, the bytes that a host's interface sent as a multiple of the
tensor's, the processors' time of all ranks, and the system calls of the threads that move data for
each MB (2^20 bytes) sent. Every sum is checked. Needs root; `nice -n -10` helps on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
from driver.network import HOSTS, TwoHosts

PORT = 29783
RANK = Path(__file__).with_name("throughput_rank.py")
CALLS = ("sendmsg", "recvmsg", "poll", "futex", "sched_yield")
# All but these move and reduce data.
CONTROL_THREADS = ("ronde-connect", "ronde-engine", "ronde-watch")
COUNT = re.compile(r"(.+)-\d+,(\d+),,(?:raw_)?syscalls:sys_enter_?(\w*),")  # perf's line
ATTACH_S = 1.0  # perf is ready by then
COUNTED_SUMS = 2


@dataclass
class Found:
    """The samples of one kind, and what the first host's interface sent meanwhile."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)  # of all ranks
    sent_bytes: list[int] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def times(self, megabytes: int) -> float:
        """The bytes sent, as a multiple of the tensor's."""
        return statistics.median(self.sent_bytes) / (megabytes << 20)


class Ranks:
    """The processes of one job over two hosts, half of them on each. A context."""

    def __init__(self, hosts: TwoHosts, options: argparse.Namespace, encryption: str) -> None:
        self.hosts, self.megabytes = hosts, options.megabytes
        self.size = 2 * options.ranks
        self.folder = tempfile.TemporaryDirectory()
        secret = Path(self.folder.name) / "secret"
        secret.touch(mode=0o600)
        secret.write_text("5" * 64)
        self.environment = {
            **os.environ,
            "RONDE_SIZE": str(self.size),
            "RONDE_JOB_ID": f"throughput-{os.getpid()}",
            "RONDE_RENDEZVOUS": f"{HOSTS[0]}:{PORT}",
            "RONDE_NETWORK_INTERFACE": "link0",
            "RONDE_SECRET_FILE": str(secret),
            "RONDE_ENCRYPTION": encryption,
        }
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Ranks:
        for rank in range(self.size):
            host, first = divmod(rank, self.size // 2)
            ends = [("--listen", HOSTS[0]), ("--connect", HOSTS[0])][host]
            words = [sys.executable, str(RANK), str(self.megabytes), *(() if first else ends)]
            self.processes.append(
                subprocess.Popen(
                    [*self.hosts.prefix(host), *words],
                    env={**self.environment, "RONDE_RANK": str(rank)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        self.folder.cleanup()

    def wait(self) -> None:
        """Waits until all ranks are ready."""
        for rank in range(self.size):
            self.hear(rank)

    def hear(self, rank: int) -> list[int]:
        """The numbers of a rank's next line."""
        line = self.processes[rank].stdout.readline()
        if not line:
            raise SystemExit(f"rank {rank} has ended")
        return [int(word) for word in line.split() if word.isdigit()]

    def run(self, what: str) -> tuple[float, float]:
        """Has "sum" or "stream" done.

        Returns the seconds from the first rank's begin to the last's end, and those of processors.
        """
        ranks = range(self.size) if what == "sum" else (0, self.size // 2)
        for rank in ranks:
            self.processes[rank].stdin.write(f"{what}\n")
            self.processes[rank].stdin.flush()
        began, ended, cpu = zip(*(self.hear(rank) for rank in ranks))
        return (max(ended) - min(began)) / 1e9, sum(cpu) / 1e9


def sent_bytes(hosts: TwoHosts) -> int:
    """Bytes that the first host's interface has sent, with headers."""
    path = "/sys/class/net/link0/statistics/tx_bytes"
    shown = ["unshare", "-m", "sh", "-c", f"mount -t sysfs none /sys && cat {path}"]
    command = [*hosts.prefix(0), *shown]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def measure(hosts: TwoHosts, ranks: Ranks, rounds: int) -> dict[str, Found]:
    """Sums and streams in turn; the first of each does not count."""
    found = {"sum": Found(), "stream": Found()}
    for turn in range(rounds + 1):
        for what, samples in found.items():
            before = sent_bytes(hosts)
            seconds, cpu_seconds = ranks.run(what)
            if turn > 0:
                samples.seconds.append(seconds)
                samples.cpu_seconds.append(cpu_seconds)
                samples.sent_bytes.append(sent_bytes(hosts) - before)
    return found


def calls_per_mb(ranks: Ranks) -> dict[str, float]:
    """The system calls of the data threads, by name and in all (""), for each MB sent."""
    events = ["raw_syscalls:sys_enter", *(f"syscalls:sys_enter_{call}" for call in CALLS)]
    pids = ",".join(str(process.pid) for process in ranks.processes)
    command = ["perf", "stat", "-x,", "--per-thread", "-e", ",".join(events), "-p", pids]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
        time.sleep(ATTACH_S)
        for _ in range(COUNTED_SUMS):
            ranks.run("sum")
        perf.send_signal(signal.SIGINT)
        lines = perf.communicate()[1].splitlines()
    counts = {call: 0 for call in ("", *CALLS)}
    for thread, count, call in (match.groups() for match in map(COUNT.match, lines) if match):
        if thread not in CONTROL_THREADS:
            counts[call] += int(count)
    # Each of two hosts sends as many bytes as the tensor has.
    sent_mb = 2 * ranks.megabytes * COUNTED_SUMS
    return {call: count / sent_mb for call, count in counts.items()}


def say(rate: str, encryption: str, ranks: Ranks, found: dict[str, Found]) -> None:
    """Prints the lines of one rate and mode."""
    total, stream = found["sum"], found["stream"]
    print(
        f"{rate}, encryption {encryption}: {total.median * 1000:.1f} ms, stream "
        f"{stream.median * 1000:.1f} ms: {100 * stream.median / total.median:.1f} % (best "
        f"{min(total.seconds) * 1000:.1f} and {min(stream.seconds) * 1000:.1f} ms)"
    )
    for name, one in (("allreduce", total), ("stream", stream)):
        cpu = statistics.median(one.cpu_seconds) * 1000
        sent = one.times(ranks.megabytes)
        print(f"  {name}: {sent:.4f} x S sent by a host, {cpu:.0f} ms of processors")
    calls = calls_per_mb(ranks) if shutil.which("perf") else {"": 0.0}
    named = ", ".join(f"{call} {calls[call]:.1f}" for call in CALLS if calls[""])
    print(f"  system calls a MB: {calls['']:.1f} ({named or 'perf cannot count here'})", flush=True)


def limit(hosts: TwoHosts, rate: str) -> None:
    """Limits what either host sends."""
    for host in range(len(HOSTS)):
        shape = ("rate", rate, "burst", "256kb", "latency", "100ms")
        if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", "root", "tbf", *shape):
            raise SystemExit(f"tc cannot limit a link to {rate!r}")


def positive(text: str) -> int:
    """A number of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def main() -> None:
    """Prints four lines for each rate and mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", nargs="+", default=["300mbit", "1gbit", "2.5gbit"], help="as tc")
    parser.add_argument("--encryption", nargs="+", choices=["off", "on"], default=["off", "on"])
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument(
        "--megabytes", type=positive, default=64, help="of the tensor, of 2^20 bytes"
    )
    parser.add_argument("--ranks", type=positive, default=2, help="on each host")
    options = parser.parse_args()
    for rate in options.rate:
        with TwoHosts() as hosts:
            limit(hosts, rate)
            for encryption in options.encryption:
                with Ranks(hosts, options, encryption) as ranks:
                    ranks.wait()
                    say(rate, encryption, ranks, measure(hosts, ranks, options.rounds))


if __name__ == "__main__":
    main()
