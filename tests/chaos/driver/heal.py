"""Connections that heal: the network between two hosts breaks for seconds, and the job goes on."""

from __future__ import annotations

import re
import subprocess
import time

from driver.case import Case
from driver.job import Job
from driver.network import HOSTS, TwoHosts, prepare

CUT_S = 3.0
LONG_CUT_S = 12.0  # more than RONDE_LINK_TIMEOUT_MS
RUN_MS = 5000
DATA_BYTES = 1 << 20  # more than a control connection carries in that time
HOWS = ("both", "one-way", "other-way", "long", "reset", "reset", "reset all", "reset all")
TABLE = "add table inet heal; add chain inet heal out { type filter hook output priority 0; };"
END = re.compile(r"\d+\.\d+\.\d+\.\d+:(\d+)")


def _rules(hosts: TwoHosts, host: int, rule: str) -> bool:
    return hosts.run(host, "nft", f"{TABLE} add rule inet heal out {rule}")


def _mend(hosts: TwoHosts) -> None:
    for host in range(len(HOSTS)):
        hosts.run(host, "nft", "delete table inet heal")


def _connections(hosts: TwoHosts, least_bytes: int) -> list[tuple[str, str]]:
    """The local and the remote port of each connection of the first host that has carried these."""
    command = [*hosts.prefix(0), "ss", "-tinHO", "state", "established"]
    found = []
    for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
        ends = END.findall(line)
        if sum(map(int, re.findall(r"bytes_(?:sent|received):(\d+)", line))) >= least_bytes:
            found.append((ends[0], ends[1]))
    return found


def _wait_for_reset(hosts: TwoHosts) -> None:
    """Until a packet has met its rule: ranks that compute for a moment send none."""
    command = [*hosts.prefix(0), "nft", "list", "table", "inet", "heal"]
    deadline = time.monotonic() + CUT_S
    met = False
    while not met and time.monotonic() < deadline:
        time.sleep(0.2)
        said = subprocess.run(command, capture_output=True, text=True).stdout
        met = any(int(packets) for packets in re.findall(r"packets (\d+)", said))


def break_network(hosts: TwoHosts, how: str) -> bool:
    """Breaks the network in this way for a while; whether this machine can do that."""
    if how.startswith("reset"):
        ends = _connections(hosts, 0 if how == "reset all" else DATA_BYTES)
        rules = (f"tcp sport {mine} tcp dport {theirs}" for mine, theirs in ends)
        could = [_rules(hosts, 0, f"{rule} counter reject with tcp reset") for rule in rules]
        _wait_for_reset(hosts)
    else:
        senders = {"one-way": (0,), "other-way": (1,)}.get(how, (0, 1))
        could = [_rules(hosts, host, "oifname link0 drop") for host in senders]
        time.sleep(LONG_CUT_S if how == "long" else CUT_S)
    _mend(hosts)
    return bool(could) and all(could)


def _warnings(job: Job) -> int:
    return sum(job.errors(rank).count("it works again after") for rank in range(job.size))


def heal(case: Case) -> None:
    """The network between two hosts breaks for 3 or 12 s, or resets: all sums are right."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    with TwoHosts() as hosts:
        job = prepare(case)
        how = case.random.choice(HOWS)
        case.facts["how"] = how
        encryption = case.random.choice(["off", "on"])
        job.environment.update(RONDE_RECONNECT_SECONDS="30", RONDE_ENCRYPTION=encryption)
        elements = 1_000_000 if how.startswith("reset") else case.random.choice([1000, 1_000_000])
        arguments = ["steps", f"seed={case.seed}", f"elements={elements}", f"run_ms={RUN_MS}"]
        hosts.start(case, job, arguments)
        everyone = list(range(job.size))
        if job.wait_for("ready", everyone):
            time.sleep(case.random.uniform(0.5, 1.5))
            broke = break_network(hosts, how)
            job.wait_for("done", everyone, 60)
            case.facts["healed"] = _warnings(job)
            if not broke:
                case.facts["skipped"] = f"this machine cannot do {how}"
            elif how.startswith("reset") and not case.facts["healed"]:
                job.complain("no rank warned of a connection that was opened again")
        job.require_codes(job.finish(), {})
