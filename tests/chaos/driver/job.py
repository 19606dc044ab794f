"""One job of workers: starts them, hears what they say, ends them, and judges how they ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver.sandbox import libc
from driver.watchdog import stacks

Event = dict[str, Any]
PR_SET_PDEATHSIG = 1


def now_us() -> int:
    """The clock of the workers' events."""
    return time.monotonic_ns() // 1000


def _state(pid: int) -> str:
    """Of a process, as its letter in /proc; empty where there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


class Job:
    """`size` workers. Complaints are what went wrong; none means that all was well."""

    def __init__(self, worker: Path, size: int, name: str) -> None:
        self.worker, self.size = worker, size
        self.environment: dict[str, str] = {
            "RONDE_SIZE": str(size),
            "RONDE_JOB_ID": f"chaos-{os.getpid()}-{name}",
            "RONDE_START_TIMEOUT_MS": "20000",
            # Sanitizers must not handle deadly signals, which the tests send. A small quarantine
            # shows the growth of memory under unauthenticated peers.
            "ASAN_OPTIONS": "handle_segv=0:handle_abort=0:quarantine_size_mb=1",
            "TSAN_OPTIONS": "handle_segv=0:handle_abort=0",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.complaints: list[str] = []
        self.hung = False
        self.facts: dict[str, Any] = {}
        self.launcher_hung = False
        self._launches = False
        self._events: list[Event] = []
        self._errors: dict[int, bytearray] = {}
        self._news = threading.Condition()
        self._readers: list[threading.Thread] = []

    # Starting.

    def start_rank(
        self,
        rank: int,
        arguments: list[str],
        prefix: list[str] | None = None,
        before: Callable[[], None] | None = None,
        **extra: str,
    ) -> None:
        """Starts one worker; `before` runs in the child."""
        environment = {"RONDE_RANK": str(rank), **extra}
        self.start([*(prefix or []), str(self.worker), *arguments], environment, before)

    def start_all(self, arguments: list[str], **extra: str) -> None:
        """Starts all ranks alike."""
        for rank in range(self.size):
            self.start_rank(rank, arguments, **extra)

    def start(
        self,
        command: list[str],
        environment: dict[str, str] | None = None,
        before: Callable[[], None] | None = None,
        launches: bool = False,
    ) -> None:
        """Starts any command whose output has the workers' events.

        Where it only `launches` workers they get a pipe past it: mpirun tears lines apart.
        """

        def in_child() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # also where we are killed
            if before is not None:
                before()

        self._launches = launches
        read_end, write_end = os.pipe()
        passed = {"RONDE_CHAOS_EVENTS": str(write_end)} if launches else {}
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            env={**os.environ, **self.environment, **passed, **(environment or {})},
            preexec_fn=in_child,
            pass_fds=[write_end] if launches else [],
        )
        os.close(write_end)
        index = len(self.processes)
        self.processes.append(process)
        self._errors[index] = bytearray()
        for target, source in ((self._read_events, read_end), (self._read_errors, index)):
            self._readers.append(threading.Thread(target=target, args=(source,), daemon=True))
            self._readers[-1].start()

    def _read_events(self, read_end: int) -> None:
        for line in os.fdopen(read_end, "rb"):
            with contextlib.suppress(ValueError):
                event = json.loads(line[line.index(b"{") :])
                with self._news:
                    self._events.append(event)
                    self._news.notify_all()

    def _read_errors(self, index: int) -> None:
        for line in self.processes[index].stderr or ():
            with self._news:
                self._errors[index] += line
                self._news.notify_all()

    # Hearing.

    def events(self, name: str, rank: int | None = None) -> list[Event]:
        """What has been said so far, of one rank or of all."""
        with self._news:
            return [e for e in self._events if e["event"] == name and rank in (None, e.get("rank"))]

    def errors(self, index: int) -> str:
        """Standard error of process number `index`, so far."""
        with self._news:
            return self._errors[index].decode(errors="replace")

    def wait_until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Waits for something that events or standard error tell."""
        deadline = time.monotonic() + seconds
        while not true():
            left = deadline - time.monotonic()
            if left <= 0 or self._ended():
                return true()
            with self._news:
                self._news.wait(min(left, 0.05))
        return True

    def wait_for(self, name: str, ranks: list[int], seconds: float = 30) -> bool:
        """Waits until each of `ranks` has said `name`; complains where one has not."""
        if self.wait_until(lambda: all(self.events(name, r) for r in ranks), seconds):
            return True
        silent = [r for r in ranks if not self.events(name, r)]
        self.complain(f'no "{name}" from ranks {silent} within {seconds:g} s')
        self._show_stacks([i for i, p in enumerate(self.processes) if p.poll() is None])
        return False

    def _ended(self) -> bool:
        """True if all processes have ended and all their output has been read."""
        return all(p.poll() is not None for p in self.processes) and not any(
            reader.is_alive() for reader in self._readers
        )

    def last_words(self) -> dict[int, str]:
        """The end of each process's standard error, where there is one."""
        words = {i: self.errors(i).strip()[-600:] for i in range(len(self.processes))}
        return {i: text for i, text in words.items() if text}

    def complain(self, text: str) -> None:
        """Something was not as it must be."""
        self.complaints.append(text)

    # Ending.

    def pid(self, rank: int) -> int:
        """The process id of a rank, as it says itself."""
        said = self.events("ready", rank)
        return int(said[0]["pid"]) if said else self.processes[rank].pid

    def signal(self, rank: int, number: int) -> int:
        """Sends a signal and returns when."""
        at = now_us()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid(rank), number)
        return at

    def finish(self, seconds: float = 30) -> list[int | None]:
        """Waits for all to end. Prints the stacks of a process that hangs, and kills it."""
        deadline = time.monotonic() + seconds
        codes: list[int | None] = []
        for process in self.processes:
            try:
                codes.append(process.wait(max(deadline - time.monotonic(), 0)))
            except subprocess.TimeoutExpired:
                codes.append(None)
        if None in codes and self._launches and not self._workers_left():
            codes = [self._end_launcher()]
        if None in codes:
            self._show_hang([i for i, code in enumerate(codes) if code is None])
        for reader in self._readers:
            reader.join(5)
        for event in self.events("wrong"):
            self.complain(f"WRONG RESULT of {event['what']} on rank {event['rank']}")
        return codes

    def _workers_left(self) -> list[int]:
        """Workers that have not ended."""
        pids = {int(event["pid"]) for event in self.events("start")}
        return [pid for pid in pids if _state(pid) not in ("", "Z")]

    def _end_launcher(self) -> int:
        """Ends a launcher that did not see its last worker end, as mpirun after a PMIx error."""
        self.launcher_hung = True
        process = self.processes[0]
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(5)
        process.kill()
        return process.wait()

    def _show_hang(self, indices: list[int]) -> None:
        self.hung = True
        self.complain(f"processes {indices} did not end")
        self._show_stacks(indices)
        for pid in self._workers_left() if self._launches else []:
            print(f"--- worker, pid {pid}", file=sys.stderr)
            print(stacks(pid), file=sys.stderr)
        for index in indices:
            self.processes[index].send_signal(signal.SIGKILL)
            self.processes[index].wait()

    def _show_stacks(self, indices: list[int]) -> None:
        for index in indices:
            pid = self.processes[index].pid
            print(f"--- process {index}, pid {pid}", file=sys.stderr)
            print(stacks(pid), file=sys.stderr)

    # Judging.

    def require_codes(self, codes: list[int | None], wanted: dict[int, int]) -> None:
        """Complains of exit codes other than `wanted` (0 where a rank is not in it)."""
        for rank, code in enumerate(codes):
            if code is not None and code != wanted.get(rank, 0):
                tail = self.errors(rank).strip().splitlines()[-3:]
                self.complain(f"rank {rank} ended with {code}: {' | '.join(tail)}")

    def require_named(self, rank: int, victim: int) -> None:
        """Complains unless `rank` failed with an error that names the victim."""
        failed = self.events("failed", rank)
        if not failed:
            return self.complain(f"rank {rank} was not told of the death of rank {victim}")
        first = failed[0]
        told = (first["code"], first.get("about"), first.get("about_pid"))
        if told != ("rank failure", victim, self.pid(victim)):
            self.complain(f"rank {rank} was told {told}: {first['message']}")
        return None
