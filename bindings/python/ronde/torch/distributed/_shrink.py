"""torch.distributed.shrink_group(): survivors go on as a smaller group, in the same processes.

They form a new job, over new connections. First they meet in torch's store, tell which deaths they
can prove, and apply the quorum rule. The store may have died with its rank. Then the job's name
follows from the old one's, and each survivor applies the rule to the deaths that it can prove.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from ronde import _core
from ronde._errors import (
    Error,
    NotInitializedError,
    RankFailure,
    TimeoutError,
    UnavailableError,
    UnsupportedError,
)
from ronde._membership import epochs
from ronde._rendezvous.peers import Peer
from ronde._rendezvous.settings import start_limit_s
from ronde._rendezvous.store import Agreement, Rendezvous
from ronde.torch.distributed import _membership, _quorum
from ronde.torch.distributed._base import GroupBase
from ronde.torch.distributed._membership import Membership

_STORE_PROBE_S = 2.0
_DEATH_LIMIT_S = 2.0
_DEATH_MOMENT_S = 0.2
_DEATH_PAUSE_S = 0.002

_GONE = "shrink_group: rank {} has ended too {}; exclude it"

_c10d: Any = dist.distributed_c10d


@dataclass
class GroupOptions:
    """The options with which torch asks for a group."""

    store: Store
    group_rank: int
    group_size: int
    group_id: str
    timeout: timedelta


Make = Callable[[GroupOptions, list[int], Membership], GroupBase]


@dataclass
class _Shrinking:
    """A group's way from all its ranks to those that stay, by their places in the group."""

    group: GroupBase
    staying: list[int]

    def options(self) -> GroupOptions:
        places = ".".join(map(str, self.staying))
        return GroupOptions(
            store=self.group.get_group_store(),
            group_rank=self.staying.index(self.group.rank()),
            group_size=len(self.staying),
            group_id=f"{self.group.getGroupName()}:{hashlib.sha256(places.encode()).hexdigest()[:16]}",
            timeout=timedelta(seconds=self.group.limit_s()),
        )

    def in_the_same_job(self) -> tuple[GroupOptions, list[int], Membership]:
        membership = self.group.membership()
        membership.runtime()  # raises if it has been left
        membership.groups += 1
        return self.options(), [self.group.ranks()[place] for place in self.staying], membership

    def in_a_new_job(self, make: Make) -> GroupBase:
        options, old = self.options(), self.group.membership()
        if not _membership.can_replace(old):
            raise UnsupportedError(
                f"shrink_group: this process has left the job of the group {options.group_id}, and "
                "is in another one; shrink the default group, then make the others anew"
            )
        limit_s = start_limit_s(options.timeout)
        agreed = self._agree(old, options, limit_s)
        with self._naming_places(agreed.peers):
            membership = _membership.replace(
                old, agreed.job, agreed.peers, options.group_rank, limit_s
            )
            return make(options, list(range(options.group_size)), membership)

    @contextmanager
    def _naming_places(self, peers: list[Peer]) -> Iterator[None]:
        """Errors about a rank of the new job call it by its place in the group."""
        try:
            yield
        except RankFailure as error:
            if not 0 <= error.rank < len(self.staying):
                raise
            raise peers[error.rank].failure(self.staying[error.rank], _GONE) from None
        except TimeoutError as error:
            raise TimeoutError(
                f"shrink_group: {error} (ranks of the smaller group: it has the ranks "
                f"{self.staying} of this one)"
            ) from None

    def _agree(self, old: Membership, options: GroupOptions, limit_s: float) -> Agreement:
        dead = self._proven_dead(old)
        name = f"shrink/{old.name}/{options.group_id}"
        agreed = self._meet(options, name, dead, limit_s)
        if agreed is None:
            if not old.peers:
                raise UnavailableError("shrink_group: the group's store cannot be reached")
            dead = self._proven_dead(old)  # the store's rank may have died in the rendezvous
            peers = [old.peers[self.group.ranks()[place]] for place in self.staying]
            agreed = Agreement("", peers)
            why = _quorum.refusal(self.group.size(), self.staying, dead)
            if why:
                raise UnavailableError(why)
        # The same where the store has died before this rank could read that all agree.
        job = f"torch-{hashlib.sha256(name.encode()).hexdigest()[:32]}" if old.name else agreed.job
        return Agreement(job, agreed.peers)

    def _meet(
        self, options: GroupOptions, name: str, dead: list[int], limit_s: float
    ) -> Agreement | None:
        """Meets the others in the store; None if it has died."""
        rank, size = options.group_rank, options.group_size
        if not _is_reachable(options.store):
            return None
        rendezvous = Rendezvous(
            store=options.store,
            scope=name,
            rank=rank,
            size=size,
            me=Peer.me(dead),
            offer_limit_s=limit_s,
            limit_s=limit_s,
            watch=lambda: self._refuse_dead(self.group.membership()),
            numbers=self.staying,
        )
        try:
            return rendezvous.agree(self._judge)
        except dist.DistError:
            return None

    def _refuse_dead(self, old: Membership) -> None:
        """Raises RankFailure for a rank that stays and has ended."""
        self._dead(old)

    def _proven_dead(self, old: Membership) -> list[int]:
        """_dead(), but waits a moment for more: a process ends after its connections.

        It waits longer where the survivors could not go on otherwise.
        """
        begin = time.monotonic()
        while True:
            dead = self._dead(old)
            refused = bool(_quorum.refusal(self.group.size(), self.staying, dead))
            limit_s = _DEATH_LIMIT_S if refused else _DEATH_MOMENT_S
            complete = len(dead) + len(self.staying) == self.group.size()
            if complete or not old.peers or time.monotonic() > begin + limit_s:
                return dead
            time.sleep(_DEATH_PAUSE_S)

    def _dead(self, old: Membership) -> list[int]:
        """The places whose death this process can prove. Raises RankFailure for one that stays."""
        if not old.peers:
            return []
        pids = Peer.me().pids
        dead = []
        for place, rank in enumerate(self.group.ranks()):
            if old.peers[rank].is_dead(pids):
                dead.append(place)
                if place in self.staying:
                    raise old.peers[rank].failure(place, _GONE)
        return dead

    def _judge(self, peers: list[Peer]) -> str:
        dead = {place for peer in peers for place in peer.dead}
        return _quorum.refusal(self.group.size(), self.staying, dead)


def shrunk(group: GroupBase, ranks_to_exclude: list[int], make: Make) -> GroupBase:
    """The group without these ranks. Blocks until the other ranks have called it.

    The default group, and a group whose job has failed, get a new job. `make` takes over one use
    of the membership. Raises UnavailableError where the quorum rule says no. Raises RankFailure for
    a rank that is not excluded but has ended, TimeoutError with the ranks that do not come.
    """
    excluded = set(ranks_to_exclude)
    staying = [place for place in range(group.size()) if place not in excluded]
    shrinking = _Shrinking(group, staying)
    if group is not _c10d._get_default_group():
        try:
            return _tried(make(*shrinking.in_the_same_job()))
        except NotInitializedError:
            pass  # this process has left that job
        except Error as error:
            if epochs.recovery_of(error) != _core.Recovery.REPLACE:
                raise
    return shrinking.in_a_new_job(make)


def _tried(made: Any) -> GroupBase:
    """`made`, once an operation of it has worked; it is left if its job has failed."""
    try:
        made.barrier().wait()
    except Error:
        made.abort()
        raise
    return made  # type: ignore[no-any-return]


def _is_reachable(store: Store) -> bool:
    """False if torch's server has gone. It says so at length itself if it is asked."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if not isinstance(store, TCPStore):
        return True
    try:
        socket.create_connection((store.host, store.port), _STORE_PROBE_S).close()
    except OSError:
        return False
    return True


def _finalize(info: dict[str, Any], excluded: set[int], made: Any) -> Any:
    """Registers the smaller group with torch in the place of the old one.

    Torch's own function wraps the result in a ProcessGroup; Ronde's is one itself.
    """
    if not isinstance(made, GroupBase):
        return _finalize_of_torch(info, excluded, made)
    old, is_default = info["process_group"], info["is_default_group"]
    if is_default:
        _c10d._destroy_all_other_groups(exclude_group=old)
    about = _c10d._extract_group_metadata(old)
    ranks = dist.get_process_group_ranks(old)
    staying = [rank for place, rank in enumerate(ranks) if place not in excluded]
    ranks = list(range(len(staying))) if is_default else staying
    _c10d._cleanup_original_group(old, is_default)
    made.setGroupName(about["new_group_name"])
    made.setGroupDesc(
        "default:shrunken" if is_default else f"{about['original_group_name']}:shrunk"
    )
    if is_default:
        _c10d._update_default_pg(made)
    _c10d._register_pg_in_world(
        pg=made,
        backend_name=about["backend_name"],
        store=about["store"],
        group_name=about["new_group_name"],
        backend_config=about["backend_config"],
        rank_mapping={rank: place for place, rank in enumerate(ranks)},
        add_to_default_tag=True,
    )
    return made


_finalize_of_torch = _c10d._finalize_shrunk_group
_c10d._finalize_shrunk_group = _finalize
