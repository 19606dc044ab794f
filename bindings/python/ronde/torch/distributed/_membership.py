"""Joins the processes of torch.distributed to one Ronde job, with any launcher."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store

from ronde import _core
from ronde._errors import Error, InvalidArgumentError, NotInitializedError
from ronde._job import runtime as _runtime
from ronde._job.runtime import job
from ronde._membership import epochs, joining
from ronde._rendezvous.addresses import with_ports
from ronde._rendezvous.peers import EndWatch, Peer, refuse_orphan
from ronde._rendezvous.settings import keep_store, settings_of, start_limit_s
from ronde._rendezvous.store import ENDED_AT_START, Agreement, Rendezvous, attempt_scope

_DEATH_MOMENT_S = 0.2
_DEATH_PAUSE_S = 0.002


@dataclass
class Membership:
    """This process's place in one Ronde job. Its groups share it; the last one that leaves ends it.

    name: of the job, known to its ranks alone; empty if they have not met in a store. peers: by
    rank; empty likewise. place, secret: see Agreement. joined_here: enter() joined the job, so
    that the last leave() leaves it.
    """

    name: str = ""
    peers: list[Peer] = field(default_factory=list)
    joined_here: bool = False
    groups: int = 0
    place: str = ""
    secret: str = ""

    def runtime(self) -> _core.Runtime:
        """The job's runtime. Raises NotInitializedError if this process is in another job now."""
        if _state.current is not self:
            raise NotInitializedError("this process has left the process group's job")
        return _runtime.runtime()

    def is_current(self) -> bool:
        """True while this process is in the job."""
        return _state.current is self and joining.is_initialized()

    def leave(self) -> None:
        """Leaves the job with the last group, if enter() joined it."""
        self.groups -= 1
        if self.groups > 0 or _state.current is not self:
            return
        _state.current = None
        if self.joined_here:
            joining.shutdown()


class _State:
    current: Membership | None = None


_state = _State()


def enter(
    store: Store, rank: int, size: int, timeout: timedelta, everyone: bool = True
) -> Membership:
    """Joins the job of `size` ranks as `rank`, or checks that this process is in it already.

    Blocks until all ranks have called it. `store` is torch's, the same for all ranks. `everyone`:
    all ranks call it, not only those of a group. Each success needs one leave() of the result.
    """
    current = _state.current
    if current is None or not joining.is_initialized():
        current = _join(store, rank, size, timeout, everyone)
    if (joining.rank(), joining.size()) != (rank, size):
        raise InvalidArgumentError(
            f"torch.distributed calls this process rank {rank} of {size}, but in the Ronde job it "
            f"is rank {joining.rank()} of {joining.size()}; start both with the same ranks"
        )
    _state.current = current
    current.groups += 1
    return current


def can_replace(old: Membership) -> bool:
    """True if this process is in the job of `old`, or in none."""
    return _state.current is old or _state.current is None


def replace(old: Membership, name: str, peers: list[Peer], rank: int, limit_s: float) -> Membership:
    """Leaves the job of `old`, and joins `peers` as `rank` in the job `name`.

    Keeps residuals of compression and tuning.

    Blocks up to limit_s. Raises RankFailure, by rank in `peers`, if one of them has ended. After an
    error this process is in no job, and may try again.
    """
    chosen = os.environ.get("RONDE_RENDEZVOUS", "")
    place = chosen or old.place
    if old.peers and peers[0].host != old.peers[0].host:
        place = moved_rendezvous(peers[0], place)
    if not chosen and all(peer.host == peers[0].host for peer in peers):
        agreed = Agreement(name, peers)
    else:
        agreed = Agreement(name, peers, place, old.secret)
    settings = settings_of(agreed, rank, limit_s)
    _state.current = None
    joining.leave(keep=True)
    _start(settings, peers)
    _state.current = Membership(name, peers, old.joined_here, 1, place, old.secret)
    return _state.current


def moved_rendezvous(first: Peer, place: str) -> str:
    """The place to meet if a rank of another host than before is rank 0 now."""
    return with_ports(first.address, place.rpartition(":")[2])


def _join(store: Store, rank: int, size: int, timeout: timedelta, everyone: bool) -> Membership:
    if joining.is_initialized() and not everyone:
        return Membership()  # the others cannot be asked
    refuse_orphan()
    keep_store(store, rank)
    limit_s = start_limit_s(timeout)
    rendezvous = Rendezvous(
        store, attempt_scope(), rank, size, Peer.me(), timeout.total_seconds(), limit_s
    )
    agreed = rendezvous.agree()
    joined_here = not joining.is_initialized()
    if joined_here:
        by_launcher = "RONDE_SIZE" in os.environ and _core.launched_job()[:2] == (rank, size)
        known = Agreement("", agreed.peers) if by_launcher else agreed
        _start(settings_of(known, rank, limit_s), agreed.peers)
    return Membership(agreed.job, agreed.peers, joined_here, 0, agreed.place, agreed.secret)


def _start(settings: dict[str, Any], peers: list[Peer]) -> None:
    """Joins the job of `peers`, unless the kernel says that one of them has ended."""
    if epochs.available():  # the launcher knows of deaths
        joining.init(settings=settings)
        return
    with EndWatch(peers) as job.until:
        try:
            joining.init(settings=settings)
        except Error as error:
            if epochs.recovery_of(error) != _core.Recovery.NONE:
                _raise_if_dead(peers)
            raise
        finally:
            job.until = -1


def _raise_if_dead(peers: list[Peer]) -> None:
    """Raises RankFailure for a peer that has ended. A process ends after its connections."""
    pids = Peer.me().pids
    end = time.monotonic() + _DEATH_MOMENT_S
    while True:
        for rank, peer in enumerate(peers):
            if peer.is_dead(pids):
                raise peer.failure(rank, ENDED_AT_START) from None
        if time.monotonic() > end:
            return
        time.sleep(_DEATH_PAUSE_S)
