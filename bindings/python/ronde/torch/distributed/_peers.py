"""The processes of a job, and the proof that one of them has ended.

Only the kernel of its own host proves a death. Silence proves nothing: a rank may be stopped, or
behind a broken link.
"""

from __future__ import annotations

import os
import select
import socket
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PARENT = os.getppid()


@dataclass(frozen=True)
class Peer:
    """One process that takes part: where it runs, and in which attempt of its torchrun agent."""

    nonce: str  # tells two processes apart that come as the same rank
    host: str  # equal for processes that can connect without the network
    pids: str  # equal for processes that see each other's process ids
    pid: int
    started: int  # in clock ticks since the host's start: tells uses of one pid apart
    group: str  # torchrun's agent, by its rank
    attempt: str  # torchrun's count of restarts, by that agent
    address: str  # where ranks of other hosts reach this host; empty: one host
    dead: tuple[int, ...] = ()  # ranks of an earlier group, proven dead by this process

    @classmethod
    def me(cls, dead: Sequence[int] = ()) -> Peer:
        """This process. `dead`: the ranks whose death it can prove."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(
            nonce=uuid.uuid4().hex[:12],
            host=f"{os.uname().nodename} {boot} {_namespace('net')}",
            pids=f"{boot} {_namespace('pid')}",
            pid=os.getpid(),
            started=_start_time(os.getpid()) or 0,
            group=os.environ.get("GROUP_RANK", ""),
            attempt=os.environ.get("TORCHELASTIC_RESTART_COUNT", ""),
            address=_address(),
            dead=tuple(dead),
        )

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Peer:
        """The inverse of fields()."""
        return cls(**{**fields, "dead": tuple(fields["dead"])})

    def fields(self) -> dict[str, Any]:
        """Its fields, for JSON."""
        return asdict(self)

    def is_dead(self, pids: str) -> bool:
        """True if the kernel says so. `pids`: this process's own; never true on another host."""
        if self.pids != pids:
            return False
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        except (OSError, AttributeError):  # no descriptors left, an old kernel
            return _start_time(self.pid) is None
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(0)) or _start_time(self.pid) != self.started
        finally:
            os.close(descriptor)


def is_orphan() -> bool:
    """True if torchrun's agent that started this process has ended."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != _PARENT


def _namespace(kind: str) -> int:
    return Path(f"/proc/self/ns/{kind}").stat().st_ino


def _start_time(pid: int) -> int | None:
    """Clock ticks from the host's start to the process's; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def _address() -> str:
    """This host's address on the way to the job's rendezvous; empty for a job on one host."""
    host, _, port = os.environ.get("RONDE_RENDEZVOUS", "").rpartition(":")
    with suppress(OSError, ValueError):
        family, kind, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
        with closing(socket.socket(family, kind)) as probe:
            probe.connect(address)  # sends nothing
            return str(probe.getsockname()[0])
    return ""
