"""The processes of a job, and the proof that one of them has ended.

Only the kernel of its own host proves a death. Silence proves nothing: a rank may be stopped, or
behind a broken link.
"""

from __future__ import annotations

import os
import select
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ronde._errors import RankFailure, UnavailableError
from ronde._rendezvous.addresses import own_address
from ronde._rendezvous.secret import mark_of

_PARENT = os.getppid()
_RENDEZVOUS = "RONDE_RENDEZVOUS"
_SECRETS = ("RONDE_SECRET_FILE", "RONDE_SECRET_FD")


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
    address: str  # where ranks of other hosts reach this host; empty: unknown
    has_rendezvous: bool = False  # the user has set one
    has_secret: bool = False  # likewise
    secret_mark: str = ""  # tells secrets apart, and nothing of them; empty: unknown
    dead: tuple[int, ...] = ()  # ranks of an earlier group, proven dead by this process

    @classmethod
    def me(cls, dead: Sequence[int] = (), chosen: Mapping[str, str] | None = None) -> Peer:
        """This process. `dead`: the ranks whose death it can prove.

        `chosen`: the settings that it has, over those in the environment.
        """
        known = {**os.environ, **(chosen or {})}
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(
            nonce=uuid.uuid4().hex[:12],
            host=f"{os.uname().nodename} {boot} {_namespace('net')}",
            pids=f"{boot} {_namespace('pid')}",
            pid=os.getpid(),
            started=_start_time(os.getpid()) or 0,
            group=os.environ.get("GROUP_RANK", ""),
            attempt=os.environ.get("TORCHELASTIC_RESTART_COUNT", ""),
            address=own_address(),
            has_rendezvous=_RENDEZVOUS in known,
            has_secret=not known.keys().isdisjoint(_SECRETS),
            secret_mark=mark_of(known.get("RONDE_SECRET_FILE", "")),
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

    def failure(self, rank: int, what: str) -> RankFailure:
        """An error about this process. `what`: has {} for the rank, and for the process."""
        host = self.host.split()[0]
        error = RankFailure(what.format(rank, f"(pid {self.pid} on {host})"))
        error.rank, error.host, error.pid = rank, host, self.pid
        return error


class EndWatch:
    """A descriptor that is readable once one of the peers has ended that the kernel here knows.

    A context that gives the descriptor.
    """

    def __init__(self, peers: Iterable[Peer]) -> None:
        """Watches `peers`."""
        self._peers = list(peers)
        self._stack = ExitStack()

    def __enter__(self) -> int:
        watched = self._stack.enter_context(select.epoll())
        pids = Peer.me().pids
        for peer in self._peers:
            if peer.pids == pids and peer.pid != os.getpid():
                descriptor = _descriptor_of(peer)
                if descriptor >= 0:
                    self._stack.callback(os.close, descriptor)
                    watched.register(descriptor, select.EPOLLIN)
        return watched.fileno()

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _descriptor_of(peer: Peer) -> int:
    """A descriptor that is readable once the process has ended; -1 where there can be none."""
    with suppress(OSError, AttributeError):  # no descriptors left, an old kernel
        with suppress(ProcessLookupError):
            return os.pidfd_open(peer.pid)
        ended, other_end = os.pipe()
        os.close(other_end)
        return ended
    return -1


def refuse_orphan() -> None:
    """Raises UnavailableError if torchrun's agent that started this process has ended."""
    if "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != _PARENT:
        raise UnavailableError(
            "torchrun's agent that started this process has ended: its job may have been restarted "
            "without this process, which must end too"
        )


def _namespace(kind: str) -> int:
    return Path(f"/proc/self/ns/{kind}").stat().st_ino


def _start_time(pid: int) -> int | None:
    """Clock ticks from the host's start to the process's; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])
