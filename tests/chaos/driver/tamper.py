"""Somebody on the path of a job between two hosts changes what is sent.

The job is encrypted, or has checksums.
"""

from __future__ import annotations

import contextlib
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from driver.case import Case
from driver.job import Event, Job
from driver.network import LIMIT_SECONDS, TwoHosts, prepare
from driver.relay import HOWS

RELAY = Path(__file__).with_name("relay.py")
PORT = "29999"
# From the first agreements to the middle of the data.
AFTER_BYTES = (1000, 5000, 50_000, 500_000, 5_000_000)
START_S = 20.0
# Errors of data connections and of the control channel.
ALTERED = re.compile(
    r"connection (between rank \d+ on \S+ and rank \d+ on \S+|with rank \d+ \(pid \d+ on \S+\)) "
    r".*a record that is not as it was sent"
)

CORRUPTED = re.compile(
    r"the connection of rank \d+ \(pid \d+ on \S+\) with rank \d+ \(pid \d+ on \S+\)[^:]* brought "
    r"(wrong data: \d+ bytes from byte \d+ |a header with a wrong checksum)"
)
SPOILT_RUN_MS = 5000


def _says(relay: subprocess.Popen[str], line: str, seconds: float) -> bool:
    """True if the relay's next line, within the time, is this one."""
    assert relay.stdout is not None
    readable, _, _ = select.select([relay.stdout], [], [], seconds)
    return bool(readable) and relay.stdout.readline() == f"{line}\n"


@contextlib.contextmanager
def _relay(hosts: TwoHosts, how: str, after: int) -> Iterator[subprocess.Popen[str]]:
    """The relay on the second host; it has begun where this machine can do that."""
    command = [*hosts.prefix(1), sys.executable, str(RELAY), PORT, how, str(after)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        try:
            yield relay
        finally:
            relay.kill()


def tamper(case: Case) -> None:
    """A relay changes, drops, repeats, swaps or cuts what an encrypted connection carries, once."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    how = case.facts["how"] = case.random.choice(HOWS)
    after = case.facts["after"] = case.random.choice(AFTER_BYTES)
    with TwoHosts() as hosts, _relay(hosts, how, after) as relay:
        if not _says(relay, "ready", START_S):
            case.facts["skipped"] = "nftables cannot redirect here"
            return
        job = prepare(case)
        job.environment["RONDE_ENCRYPTION"] = "on"
        hosts.start(case, job, ["steps", f"seed={case.seed}", "elements=1000000", "steps=-1"])
        everyone = list(range(job.size))
        job.wait_for("failed", everyone, START_S + LIMIT_SECONDS)
        if not _says(relay, "spoiled", 0):
            job.complain("the relay had nothing to spoil")
        job.require_codes(job.finish(), {})
        _judge(job, how, job.events("failed"))


def _judge(job: Job, how: str, failures: list[Event]) -> None:
    messages = [f"rank {failed['rank']}: {failed['message']}" for failed in failures]
    if any(failed["code"] != "rank failure" for failed in failures):
        job.complain(f"not all ranks have the typed error: {messages}")
    if how != "cut" and not all(ALTERED.search(message) for message in messages):
        job.complain(f"not all ranks name the ends of the connection: {messages}")


def spoil(case: Case) -> None:
    """A relay flips a bit of a plain connection with checksums: an error, or the job goes on."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    heals = case.facts["heals"] = case.random.random() < 0.5
    after = case.facts["after"] = case.random.choice(AFTER_BYTES[1:])
    with TwoHosts() as hosts, _relay(hosts, "flip", after) as relay:
        if not _says(relay, "ready", START_S):
            case.facts["skipped"] = "nftables cannot redirect here"
            return
        job = prepare(case)
        job.environment.update(RONDE_CHECKSUMS="1", RONDE_RECONNECT_SECONDS="20" if heals else "0")
        until = f"run_ms={SPOILT_RUN_MS}" if heals else "steps=-1"
        hosts.start(case, job, ["steps", f"seed={case.seed}", "elements=1000000", until])
        everyone = list(range(job.size))
        job.wait_for("done" if heals else "failed", everyone, 2 * START_S + LIMIT_SECONDS)
        if not _says(relay, "spoiled", 0):
            job.complain("the relay had nothing to spoil")
        job.require_codes(job.finish(), {})
        if heals:
            _require_resent(job)
        else:
            _judge_spoilt(job, job.events("failed"))


def _require_resent(job: Job) -> None:
    told = [job.errors(rank) for rank in range(job.size)]
    if not any("checksum" in text and "works again" in text for text in told):
        job.complain(f"no rank warned of wrong data: {told}")


def _judge_spoilt(job: Job, failures: list[Event]) -> None:
    """All ranks name both ends: of data, or of the control connection."""
    messages = [f"rank {failed['rank']}: {failed['message']}" for failed in failures]
    if not all(CORRUPTED.search(message) or ALTERED.search(message) for message in messages):
        job.complain(f"not all ranks name the ends of the connection: {messages}")
