"""Measures an allreduce over two network interfaces of different speed against the first one alone.

    python tests/clusters/two_interfaces.py [--rates 1gbit 500mbit] [--mib 64] [--rounds 5]

Two hosts of one rank each, played by network namespaces; tc limits each interface. Rounds of both
kinds take turns. Prints the median of each round in milliseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clusters.two_hosts import NamedHosts

PORT = 29781
RANK = """
import sys, time
import numpy as np
import ronde
ronde.init()
mine = np.full(int(sys.argv[1]) << 18, ronde.rank() + 1, np.float32)
for step in range(int(sys.argv[2]) + 2):
    began = time.perf_counter()
    total = ronde.allreduce(mine, op=ronde.Sum, name="sum")
    if step > 1:
        print(time.perf_counter() - began)
    assert (total == 3).all(), "a wrong sum"
"""


def run(hosts: NamedHosts, folder: Path, interfaces: str, arguments: argparse.Namespace) -> float:
    """The median time of an allreduce, in milliseconds."""
    script, secret = folder / "rank.py", folder / "secret"
    script.write_text(RANK)
    secret.touch(mode=0o600)
    secret.write_text("5" * 64)
    environment = {
        **os.environ,
        "RONDE_SIZE": "2",
        "RONDE_JOB_ID": f"two-interfaces-{os.getpid()}",
        "RONDE_RENDEZVOUS": f"10.77.0.1:{PORT}",
        "RONDE_SECRET_FILE": str(secret),
        "RONDE_NETWORK_INTERFACE": interfaces,
    }
    words = [sys.executable, str(script), str(arguments.mib), str(arguments.steps)]
    ranks = [
        subprocess.Popen(
            hosts.command(rank, words),
            env={**environment, "RONDE_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks)
    return statistics.median(float(line) for line in said[0].split()) * 1000


def main() -> None:
    """Prints each round, then the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", nargs=2, default=["1gbit", "500mbit"], help="of the interfaces")
    parser.add_argument("--mib", type=int, default=64, help="of the tensor")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="allreduces of a round")
    arguments = parser.parse_args()
    kinds = {"first alone": "link0", "both": "link0,link1"}
    medians: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name, NamedHosts(Path(name), interfaces=2) as hosts:
        for interface, rate in enumerate(arguments.rates):
            shape = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "100ms")
            for host in range(2):
                assert hosts.run(host, "tc", "qdisc", "add", "dev", f"link{interface}", *shape)
        for _ in range(arguments.rounds):
            for kind, interfaces in kinds.items():
                medians[kind].append(run(hosts, Path(name), interfaces, arguments))
                print(f"{kind}: {medians[kind][-1]:.0f} ms", flush=True)
    alone, both = (statistics.median(values) for values in medians.values())
    print(f"medians: {alone:.0f} ms and {both:.0f} ms, {alone / both:.2f} x")


if __name__ == "__main__":
    main()
