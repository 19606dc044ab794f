"""Ranks that disagree, ranks that never come, and machines without shared memory."""

from __future__ import annotations

from pathlib import Path

from driver.case import Case
from driver.job import Job
from driver.sandbox import CLONE_NEWNS, call, libc


def mismatch(case: Case) -> None:
    """Planted disagreements: the same typed error on all ranks, and the job stays usable."""
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts", "mpi"))
    count = 25
    case.facts["count"] = count
    case.start("mismatch", f"seed={case.seed}", f"count={count}")
    job.wait_for("done", list(range(job.size)), 60)
    job.finish()
    for index in range(count):
        _judge_mismatch(job, index)
    told = {(event["code"], event.get("message")) for event in job.events("sets")}
    if len(told) != 1 or told.pop()[0] != "mismatch" or len(job.events("sets")) != job.size:
        job.complain(f"process sets: {job.events('sets')}")
    _judge_twice(job)


def _judge_twice(job: Job) -> None:
    """One rank's second submission of a name fails the first one too, with one text, everywhere."""
    said = job.events("twice")
    told = {(event["code"], event.get("message")) for event in said}
    if len(said) != job.size + 1 or len(told) != 1 or told.pop()[0] != "duplicate name":
        job.complain(f"a name submitted twice: {said}")


def _judge_mismatch(job: Job, index: int) -> None:
    told = [e for e in job.events("mismatch") if e["index"] == index]
    if len(told) != job.size:
        return job.complain(f"mismatch {index} ended on {len(told)} of {job.size} ranks")
    codes, messages = {e["code"] for e in told}, {e.get("message") for e in told}
    what = f"mismatch {index} ({told[0]['what']}, known {told[0]['known']})"
    if codes != {"mismatch"} or len(messages) != 1:
        return job.complain(f"{what}: {codes} {messages}")
    text = str(messages.pop())
    if "one.py:10" not in text or "two.py:20" not in text:
        return job.complain(f"{what} does not name both lines: {text}")
    return None


def stall(case: Case) -> None:
    """A tensor that one rank does not submit: rank 0 warns, it fails where a limit is set."""
    job = case.make_job(sizes=(2, 3, 4), planes=("shm", "tcp", "gloo", "hosts"))
    victim = case.random.randrange(job.size)
    fatal = case.random.random() < 0.5
    case.facts["fatal"] = fatal
    job.environment["RONDE_STALL_WARNING_SECONDS"] = "1"
    if fatal:
        job.environment["RONDE_STALL_ERROR_SECONDS"] = "2"
    late = 3000 if fatal else 1800
    case.start("stall", f"victim={victim}", f"late_ms={late}", f"never={int(fatal)}")
    others = [r for r in range(job.size) if r != victim]
    job.wait_for("failed" if fatal else "passed", others, 30)
    job.wait_for("done", list(range(job.size)), 30)
    job.require_codes(job.finish(), {})
    if f"for rank {victim}" not in job.errors(0):
        job.complain(f"rank 0 did not warn of rank {victim}: {job.errors(0)!r}")
    for rank in others if fatal else []:
        failed = job.events("failed", rank)[:1]
        if not failed or failed[0]["code"] != "stalled":
            job.complain(f"rank {rank} was told {failed}")


def small_shm(case: Case) -> None:
    """/dev/shm is tiny, full or absent: the job runs all the same."""
    job = case.make_job(planes=("auto", "shm", "tcp", "gloo"))
    how = case.random.choice(["tiny", "full", "absent"])
    case.facts["how"] = how

    def before() -> None:
        libc.unshare(CLONE_NEWNS)
        call("umount", "/dev/shm") if how == "absent" else call(
            "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/dev/shm"
        )
        if how == "full":
            call("sh", "-c", "cat /dev/zero > /dev/shm/full")

    arguments = ["steps", f"seed={case.seed}", "elements=100000", "steps=20"]
    for rank in range(job.size):
        job.start_rank(rank, arguments, before=before)
    job.wait_for("done", list(range(job.size)))
    job.require_codes(job.finish(), {})


def full_disk(case: Case) -> None:
    """The disk under the timeline is full: each rank warns, and the job runs all the same."""
    if not case.isolated:
        case.facts["skipped"] = "no namespaces here"
        return
    job = case.make_job(planes=("shm", "tcp"))
    folder = Path("/tmp/ronde-chaos-disk")
    folder.mkdir(exist_ok=True)
    call("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder))
    job.environment["RONDE_TIMELINE"] = str(folder / "trace.json")
    case.start("steps", f"seed={case.seed}", "elements=1000", "steps=80")
    job.wait_for("done", list(range(job.size)))
    job.require_codes(job.finish(), {})
    for rank in range(job.size):
        if "timeline is incomplete" not in job.errors(rank):
            job.complain(f"rank {rank} did not say that its timeline is incomplete")
    call("umount", str(folder))
    folder.rmdir()
