"""Surroundings that change under a job: its clock, its memory limit, the speed of its network."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from driver.case import Case
from driver.network import TwoHosts, prepare

CGROUPS = Path("/sys/fs/cgroup/memory")
MAX_GROWN_KIB = 2048


def clock_jump(case: Case) -> None:
    """The wall clock of some ranks jumps: nothing else happens, and a stall is told in time."""
    library = case.worker.parent / "libronde_chaos_clock.so"
    if not library.exists():
        case.facts["skipped"] = "the preloaded clock is not built"
        return
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    seconds = case.random.choice([-86400, -3600, -10, 10, 3600, 86400])
    late = case.random.random() < 0.5
    case.facts.update(jump_seconds=seconds, late=late)
    job.environment["RONDE_STALL_WARNING_SECONDS"] = "1"
    jump = {
        "LD_PRELOAD": str(library),
        "RONDE_CHAOS_CLOCK_JUMP": f"{case.random.randrange(20, 500)} {seconds}",
    }
    arguments = ["stall", "victim=0", "late_ms=1800"] if late else ["steps", f"seed={case.seed}"]
    arguments += [] if late else ["elements=100000", "run_ms=1200"]
    for rank in range(job.size):
        jumps = rank == 0 or case.random.random() < 0.5
        case.start_ranks([rank], arguments, **(jump if jumps else {}))
    job.wait_for("done", list(range(job.size)), 30)
    job.require_codes(job.finish(), {})
    if late and "for rank 0" not in job.errors(0):
        job.complain(f"rank 0 did not warn in time: {job.errors(0)!r}")
    for rank in range(job.size):
        if not late and "warning" in job.errors(rank):
            job.complain(f"rank {rank} was warned of nothing: {job.errors(rank)!r}")


def lives(case: Case) -> None:
    """The ranks join and leave over and over: nothing of it stays in them."""
    job = case.make_job(sizes=(2, 4), planes=("shm", "tcp"))
    case.facts["lives"] = case.lives
    case.start("lives", f"count={case.lives}")
    job.wait_for("done", list(range(job.size)), 30 + case.lives)
    job.require_codes(job.finish(), {})
    for rank in range(job.size):
        said = job.events("life", rank)
        early, last = said[len(said) // 3], said[-1]
        grown = last["resident_kib"] - early["resident_kib"]
        case.facts["grown_kib"] = max(grown, case.facts.get("grown_kib", grown))
        for what in ("descriptors", "threads"):
            if last[what] != early[what]:
                job.complain(f"rank {rank}: {what} went from {early[what]} to {last[what]}")
        if grown > MAX_GROWN_KIB:
            job.complain(f"rank {rank} has grown by {grown} KiB")


def _join(group: Path) -> None:
    """In a child: enters the group."""
    (group / "cgroup.procs").write_text(str(os.getpid()))


def cgroup(case: Case) -> None:
    """One rank's memory is limited from outside, as a scheduler does: it may be killed any time."""
    group = CGROUPS / f"ronde-chaos-{os.getpid()}"
    limit = case.random.randrange(8, 120) << 20
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
    except OSError as error:
        case.facts["skipped"] = f"no memory groups here: {error}"
        with contextlib.suppress(OSError):
            group.rmdir()
        return
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    job.environment["RONDE_START_TIMEOUT_MS"] = "3000"
    job.environment["RONDE_FREEZE_TIMEOUT_SECONDS"] = (
        "10"  # at its limit it may stand still instead
    )
    victim = case.random.randrange(job.size)
    arguments = ["steps", f"seed={case.seed}", "elements=1000000", "steps=20"]
    case.facts["limit"] = limit
    for rank in range(job.size):
        before = (lambda: _join(group)) if rank == victim else None
        job.start_rank(rank, arguments, before=before)
    codes = job.finish(60)
    case.facts["killed"] = codes[victim] == -signal.SIGKILL
    for rank, code in enumerate(codes):
        failed = job.events("failed", rank)
        if rank != victim and code != 0 and not failed:
            job.complain(f"rank {rank} ended with {code} without a typed error")
        if failed and failed[0]["code"] == "internal":
            job.complain(f"rank {rank}: {failed[0]['message']}")
    _remove(group)


def _remove(group: Path) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.01)
    return None


def slow_link(case: Case) -> None:
    """The link between two hosts becomes slow: the job does, too, and nobody is given up."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    with TwoHosts() as hosts:
        job = prepare(case)
        megabits = case.random.choice([4, 10, 40, 100])
        case.facts["megabits"] = megabits
        limit = ["tbf", "rate", f"{megabits}mbit", "burst", "16kb", "latency", "50ms"]
        arguments = ["steps", f"seed={case.seed}", "elements=20000", "steps=6"]
        hosts.start(case, job, arguments)
        job.wait_for("ready", list(range(job.size)))
        for host in (0, 1):
            if not hosts.run(host, "tc", "qdisc", "add", "dev", "link0", "root", *limit):
                case.facts["skipped"] = "this machine cannot slow a link down"
        job.wait_for("done", list(range(job.size)), 60)
        job.require_codes(job.finish(), {})
