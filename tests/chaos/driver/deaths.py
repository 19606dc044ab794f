"""Ranks that die or freeze: every survivor must be told who, and nobody else may fail."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import time

from driver.case import Case
from driver.job import Job

SELF_FAULTS = {"segfault": 1, "abort": 2, "throw": 3, "exit": 4, "leave": 5}
PLANES = ("shm", "shm", "tcp", "gloo", "hosts", "mpi")
EXITS = {
    "segfault": -signal.SIGSEGV,
    "abort": -signal.SIGABRT,
    "throw": -signal.SIGABRT,
    "exit": 7,
    "leave": 0,
}


def _arguments(case: Case, **more: int) -> list[str]:
    elements = case.random.choice([1000, 100_000, 1_000_000])
    numbers = {"seed": case.seed, "elements": elements, **more}
    return ["steps", *(f"{name}={value}" for name, value in numbers.items())]


def _survivors_are_told(case: Case, job: Job, victim: int, killed_at: int = 0) -> None:
    """In the middle of a run: each survivor fails naming the victim, then goes on without it."""
    survivors = [r for r in range(job.size) if r != victim]
    if not job.wait_for("failed", survivors):
        return
    for rank in survivors:
        job.require_named(rank, victim)
    if killed_at:
        last = max(job.events("failed", r)[0]["at_us"] for r in survivors)
        case.facts["latency_ms"] = round((last - killed_at) / 1000, 2)


def _end(case: Case, job: Job, wanted: dict[int, int]) -> None:
    codes = job.finish()
    if case.facts["plane"] != "mpi":  # mpirun's exit status tells of the victim
        job.require_codes(codes, wanted)


def kill(case: Case) -> None:
    """SIGKILL at a random microsecond of a run."""
    job = case.make_job(planes=PLANES)
    victim = case.random.randrange(job.size)
    recover = int(case.facts["plane"] != "mpi" and case.facts["plane"] != "hosts")
    case.start(*_arguments(case, steps=-1, recover=recover))
    if job.wait_for("ready", list(range(job.size))):
        time.sleep(case.random.uniform(0, 0.15))
        _survivors_are_told(case, job, victim, job.signal(victim, signal.SIGKILL))
    if recover and job.size > 1:
        job.wait_for("recovered", [r for r in range(job.size) if r != victim])
    _end(case, job, {victim: -signal.SIGKILL})


def kill_early(case: Case) -> None:
    """SIGKILL during the rendezvous: the others fail by name, at once or at the timeout."""
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    job.environment["RONDE_START_TIMEOUT_MS"] = "3000"
    victim = case.random.randrange(job.size)
    case.start(*_arguments(case, steps=-1))
    time.sleep(case.random.uniform(0, 0.03))
    job.signal(victim, signal.SIGKILL)
    codes = job.finish()
    for rank in range(job.size):
        failed = job.events("failed", rank)
        if rank == victim or codes[rank] is None:
            continue
        if not failed or failed[0]["code"] not in ("rank failure", "timeout"):
            job.complain(f"rank {rank} ended with {codes[rank]} and said {failed}")
        elif not _names(failed[0]["message"], victim):
            job.complain(f"rank {rank} does not name rank {victim}: {failed[0]['message']}")


def _names(message: str, victim: int) -> bool:
    """A rank that starts after rank 0 has given up only learns that rank 0 is gone."""
    gone = "could not reach rank 0" in message
    return gone or re.search(rf"ranks? ([0-9, ]*, )?{victim}\b", message) is not None


def kill_late(case: Case) -> None:
    """SIGKILL around the end of a short run: done, or told by name; never anything else."""
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    victim = case.random.randrange(job.size)
    case.start(*_arguments(case, steps=case.random.randrange(1, 10)))
    job.wait_until(lambda: bool(job.events("done")), 30)
    time.sleep(case.random.uniform(0, 0.004))
    job.signal(victim, signal.SIGKILL)
    codes = job.finish()
    for rank in range(job.size):
        if rank == victim:
            continue
        if job.events("failed", rank):
            job.require_named(rank, victim)
        elif not job.events("done", rank):
            job.complain(f"rank {rank} ended with {codes[rank]}, neither done nor told")


def fall(case: Case) -> None:
    """A rank ends itself: a segmentation fault, an abort, an exception, an exit, a clean leave."""
    job = case.make_job(planes=PLANES[:-1])
    victim = case.random.randrange(job.size)
    how = case.random.choice(list(SELF_FAULTS))
    case.facts["how"] = how
    step = case.random.randrange(20)
    fault = {"victim": victim, "fault": SELF_FAULTS[how], "fault_step": step}
    case.start(*_arguments(case, steps=-1, **fault), RONDE_LOG_LEVEL="off")
    _survivors_are_told(case, job, victim)
    codes = job.finish()
    if how == "leave":  # what it had in flight fails with it
        codes[victim] = 0 if codes[victim] in (0, 3) else codes[victim]
    job.require_codes(codes, {victim: EXITS[how]})


def freeze(case: Case) -> None:
    """SIGSTOP, then SIGCONT: nobody fails, however long the rank was silent."""
    job = case.make_job(planes=PLANES[:-1])
    victim = case.random.randrange(job.size)
    case.start(*_arguments(case, run_ms=1500))
    if job.wait_for("ready", list(range(job.size))):
        time.sleep(case.random.uniform(0, 0.3))
        job.signal(victim, signal.SIGSTOP)
        time.sleep(case.random.uniform(0, 1.2))
        job.signal(victim, signal.SIGCONT)
    job.wait_for("done", list(range(job.size)), 60)
    _end(case, job, {})


def launcher(case: Case) -> None:
    """The launcher is killed: a second later there is no rank left."""
    job = case.make_job(planes=("shm", "tcp"))
    job.environment = {"RONDE_BACKEND": case.facts["plane"]}
    ronde = case.worker.parents[2] / "bindings" / "cli" / "ronde"
    command = [str(ronde), "run", "-np", str(job.size), "--", str(case.worker)]
    job.start([*command, *_arguments(case, steps=-1)])
    job.wait_for("ready", list(range(job.size)))
    time.sleep(case.random.uniform(0, 0.1))
    job.processes[0].kill()
    pids = [job.pid(r) for r in range(job.size)]
    job.processes[0].wait()
    if not job.wait_until(lambda: not any(map(_runs, pids)), 1 + 1):
        job.complain(f"ranks {[p for p in pids if _runs(p)]} outlive the launcher")
    job.finish()


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)  # an orphan of ours: it would stay as a zombie
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def limits(case: Case) -> None:
    """One rank may open few descriptors or take little memory: all end soon, by typed errors."""
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    job.environment["RONDE_START_TIMEOUT_MS"] = "3000"
    victim = case.random.randrange(job.size)
    what = case.random.choice(["descriptors", "memory"])
    number = case.random.randrange(4, 40) if what == "descriptors" else 0
    number = number or case.random.randrange(60, 400) << 20
    case.facts.update(what=what, limit=number)
    kind = resource.RLIMIT_NOFILE if what == "descriptors" else resource.RLIMIT_AS

    def before() -> None:
        resource.setrlimit(kind, (number, number))

    for rank in range(job.size):
        arguments = _arguments(case, steps=20) if rank == 0 else job.facts["arguments"]
        job.facts["arguments"] = arguments
        job.start_rank(rank, arguments, before=before if rank == victim else None)
    codes = job.finish()
    for rank, code in enumerate(codes):
        failed = job.events("failed", rank)
        if rank != victim and code != 0 and not failed:
            job.complain(f"rank {rank} ended with {code} without a typed error")
        if failed and failed[0]["code"] in ("internal",):
            job.complain(f"rank {rank}: {failed[0]['message']}")


def interrupt(case: Case) -> None:
    """SIGINT or SIGTERM in a wait is raised there within 100 ms; the job goes on."""
    job = case.make_job(planes=("shm", "tcp", "gloo", "hosts"))
    victim = case.random.randrange(job.size)
    case.start("interrupt", f"victim={victim}")
    if job.wait_for("ready", list(range(job.size))):
        time.sleep(case.random.uniform(0, 0.1))
        sent = job.signal(victim, case.random.choice([signal.SIGINT, signal.SIGTERM]))
        if job.wait_for("interrupted", [victim]):
            took = job.events("interrupted", victim)[0]["at_us"] - sent
            case.facts["latency_ms"] = round(took / 1000, 2)
    job.wait_for("done", list(range(job.size)))
    _end(case, job, {})
