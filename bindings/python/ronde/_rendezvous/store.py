"""Agrees on a job among processes that share a store of torch.

The store may outlive a job, and an attempt of torchrun. So nothing in it is believed that a living
process has not confirmed. Rank 0 offers a new job in a log; each other rank accepts the newest
offer; rank 0 confirms its offer once all have accepted. A confirmation directly follows its offer:
a new offer replaces one that is not confirmed.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

if not torch.distributed.is_available() or (
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11)
):
    raise ImportError(
        "ronde.torch.distributed needs PyTorch 2.11 or newer with torch.distributed; "
        f"this is {torch.__version__}. The functions of ronde.torch work here."
    )

from torch._C._distributed_c10d import Store

from ronde._errors import (
    AbortedError,
    Error,
    InvalidArgumentError,
    RankFailure,
    TimeoutError,
    UnavailableError,
)
from ronde._rendezvous.addresses import rendezvous_address
from ronde._rendezvous.peers import Peer
from ronde._rendezvous.secret import new_secret

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02
_MARGIN_S = 5.0  # after rank 0's own limit, as it names the missing ranks
_LOOK_EVERY_S = 0.25  # at processes, to see if they have ended

ENDED_AT_START = "rank {} ended while the job started {}"

Judge = Callable[[list[Peer]], str]


@dataclass(frozen=True)
class Agreement:
    """A job that its ranks have confirmed."""

    job: str
    peers: list[Peer]  # by rank
    place: str = ""  # "address:ports" where rank 0 listens; empty: one host, or set by the user
    secret: str = ""  # for connections between hosts; likewise


@dataclass
class Rendezvous:
    """One process's part in an agreement among `size` processes.

    offer_limit_s: how long rank 0 may take to come. limit_s: how long the others may, after it.
    watch: raises RankFailure for a process that was to come and has ended; all then raise it.
    numbers: by which errors call the ranks; 0, 1, ... by default.
    """

    store: Store
    scope: str
    rank: int
    size: int
    me: Peer
    offer_limit_s: float
    limit_s: float
    watch: Callable[[], None] | None = None
    numbers: Sequence[int] = ()

    def agree(self, judge: Judge | None = None) -> Agreement:
        """Blocks until all ranks agree. `judge`: on rank 0, why the peers may not start; or "".

        Raises TimeoutError with the missing ranks, RankFailure, AbortedError if another process has
        taken this one's place, UnavailableError with the judge's reason: the same on all ranks.
        """
        log = _Log(self.store, f"ronde/{self.scope}/{self.size}")
        if self.rank == 0:
            return self._lead(log, judge)
        return self._follow(log)

    def _lead(self, log: _Log, judge: Judge | None) -> Agreement:
        job = f"torch-{uuid.uuid4().hex}"
        place = log.append({"offer": job, "peer": self.me.fields()})
        try:
            peers = [self.me, *self._accepted(job, lambda: log.has(place + 1))]
            why = judge(peers) if judge else ""
            if why:
                raise UnavailableError(why)
            agreed = _agreement(job, peers)
        except Error as error:
            log.put(place + 1, {"ended": job, **_fields_of(error)})
            raise
        confirmed = {"confirmed": job, "peers": [peer.fields() for peer in peers]}
        confirmed.update(place=agreed.place, secret=agreed.secret)
        if not log.put(place + 1, confirmed):
            raise self._replaced()
        return agreed

    def _accepted(self, job: str, is_replaced: Callable[[], bool]) -> list[Peer]:
        """Waits for all other ranks; returns them by rank."""
        keys = [f"ronde/{job}/{rank}" for rank in range(1, self.size)]
        waiting = _Waiting(self.limit_s)
        while True:
            if not keys or self.store.check(keys):
                peers = [_peer(text) for text in self.store.multi_get(keys)] if keys else []
                if _is_one_attempt([self.me, *peers]):
                    return peers
            if waiting.is_over():
                raise TimeoutError(self._missing(keys))
            if waiting.should_look():
                self._look_around()
                self._look_at(keys)
                if is_replaced():
                    raise self._replaced()
            waiting.pause()

    def _look_around(self) -> None:
        """Raises RankFailure if any process has found that one has ended that was to come."""
        if self.watch is None:
            return
        found = f"ronde/{self.scope}/gone"
        try:
            self.watch()
        except RankFailure as failure:
            self.store.set(found, json.dumps(_fields_of(failure)))
            raise
        if self.store.check([found]):
            raise _error_of(json.loads(self.store.get(found)))

    def _number(self, rank: int) -> int:
        return self.numbers[rank] if self.numbers else rank

    def _look_at(self, keys: list[str]) -> None:
        """Raises RankFailure if a process has ended that has accepted."""
        for rank, key in enumerate(keys, 1):
            if self.store.check([key]):
                peer = _peer(self.store.get(key))
                if peer.is_dead(self.me.pids):
                    raise peer.failure(self._number(rank), ENDED_AT_START)

    def _missing(self, keys: list[str]) -> str:
        absent = [rank for rank, key in enumerate(keys, 1) if not self.store.check([key])]
        if absent:
            names = ", ".join(str(self._number(rank)) for rank in absent[:64])
            of = "" if self.numbers else f" of {self.size}"
            return f"ranks {names}{of} have not come within {self.limit_s:g} s"
        return "the ranks that have come are of different attempts (TORCHELASTIC_RESTART_COUNT)"

    def _follow(self, log: _Log) -> Agreement:
        place = log.length()
        if place > 0 and "offer" in log.read(place - 1):
            place -= 1
        job = ""
        leader: Peer | None = None
        while True:
            entry = self._next(log, place, leader)
            place += 1
            if "offer" in entry:
                job, leader = entry["offer"], Peer.from_fields(entry["peer"])
                self.store.set(f"ronde/{job}/{self.rank}", json.dumps(self.me.fields()))
            elif entry.get("confirmed") == job:
                peers = [Peer.from_fields(fields) for fields in entry["peers"]]
                if peers[self.rank].nonce != self.me.nonce:
                    raise self._replaced()
                return Agreement(job, peers, entry["place"], entry["secret"])
            elif entry.get("ended") == job:
                raise _error_of(entry)

    def _next(self, log: _Log, place: int, leader: Peer | None) -> dict[str, Any]:
        """Waits for an entry of the log."""
        limit_s = max(self.offer_limit_s, self.limit_s + _MARGIN_S if leader else 0)
        waiting = _Waiting(limit_s)
        alone_since: float | None = None
        while not log.has(place):
            now = time.monotonic()
            if waiting.should_look():
                self._look_around()
                if leader and leader.is_dead(self.me.pids):
                    alone_since = alone_since or now  # its successor may come
            if alone_since and now - alone_since > self.limit_s:
                assert leader is not None
                raise leader.failure(self._number(0), ENDED_AT_START)
            if waiting.is_over():
                raise TimeoutError(f"rank {self._number(0)} has not come within {limit_s:g} s")
            waiting.pause()
        return log.read(place)

    def _replaced(self) -> AbortedError:
        return AbortedError(
            f"another process has come as rank {self.rank} of {self.size}: this one (pid "
            f"{self.me.pid}) is of an earlier attempt, or two jobs share one store"
        )


_KINDS: dict[str, type[Error]] = {
    kind.__name__: kind
    for kind in (TimeoutError, RankFailure, UnavailableError, InvalidArgumentError)
}


class _Log:
    """A list in a store. Entries are added at its end, by one process each, and never change."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def has(self, place: int) -> bool:
        return bool(self._store.check([self._key(place)]))

    def read(self, place: int) -> dict[str, Any]:
        entry: dict[str, Any] = json.loads(self._store.get(self._key(place)))
        return entry

    def put(self, place: int, entry: dict[str, Any]) -> bool:
        """Writes an entry; False if another process has written one there."""
        text = json.dumps(entry)
        return bool(self._store.compare_set(self._key(place), "", text) == text.encode())

    def append(self, entry: dict[str, Any]) -> int:
        place = self.length()
        while not self.put(place, entry):
            place += 1
        return place

    def length(self) -> int:
        low, high = 0, 1
        while self.has(high - 1):
            low, high = high, 2 * high
        while low < high - 1:  # has low entries, not high ones
            middle = (low + high) // 2
            low, high = (middle, high) if self.has(middle - 1) else (low, middle)
        return low

    def _key(self, place: int) -> str:
        return f"{self._name}/{place}"


class _Waiting:
    """Pauses between looks into the store: Ctrl-C cannot end a wait inside the store."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s
        self._look = time.monotonic() + _LOOK_EVERY_S
        self._pause_s = _FIRST_PAUSE_S

    def is_over(self) -> bool:
        return time.monotonic() > self._end

    def should_look(self) -> bool:
        if time.monotonic() < self._look:
            return False
        self._look = time.monotonic() + _LOOK_EVERY_S
        return True

    def pause(self) -> None:
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)


def attempt_scope() -> str:
    """Names torchrun's attempt, as far as all its ranks know it.

    Agents count their own restarts, and differ by those that others did not see. So the count is
    the job's only under one agent; else it must be the same for the ranks of each agent.
    """
    if os.environ.get("GROUP_WORLD_SIZE", "1") != "1":
        return "agents"
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "")


def _is_one_attempt(peers: list[Peer]) -> bool:
    """False while a process of an earlier attempt has come in a new one's place."""
    attempts = {(peer.group, peer.attempt) for peer in peers}
    return len(attempts) == len({peer.group for peer in peers})


def _agreement(job: str, peers: list[Peer]) -> Agreement:
    """Rank 0's: with what ranks of several hosts need, unless the user has set it."""
    first = peers[0]
    others = [peer.address for peer in peers if peer.host != first.host]
    if not others:
        return Agreement(job, peers)
    _check_alike(peers, [peer.has_rendezvous for peer in peers], "RONDE_RENDEZVOUS")
    _check_alike(peers, [peer.has_secret for peer in peers], "RONDE_SECRET_FILE")
    _check_one_secret(peers)
    place = "" if first.has_rendezvous else rendezvous_address(first.address, others)
    if not (place or first.has_rendezvous):
        raise UnavailableError(
            f"rank 0's host {first.host.split()[0]} has no address that other hosts can reach; set "
            "RONDE_NETWORK_INTERFACE to one of its interfaces"
        )
    return Agreement(job, peers, place, "" if first.has_secret else new_secret())


def _check_alike(peers: list[Peer], have: list[bool], name: str) -> None:
    """Raises InvalidArgumentError unless all ranks have a setting, or none has."""
    if len({*have}) == 1:
        return
    having, lacking = (
        f"rank {rank} on {peers[rank].host.split()[0]}"
        for rank in (have.index(True), have.index(False))
    )
    raise InvalidArgumentError(
        f"{having} has {name}, but {lacking} has none: set it on all hosts, or on none"
    )


def _check_one_secret(peers: list[Peer]) -> None:
    """Raises InvalidArgumentError if two ranks have different secrets."""
    known = {peer.secret_mark: rank for rank, peer in reversed([*enumerate(peers)])}
    known.pop("", None)
    ranks = sorted(known.values())
    if len(ranks) > 1:
        one, other = (f"rank {rank} on {peers[rank].host.split()[0]}" for rank in ranks[:2])
        raise InvalidArgumentError(
            f"{one} and {other} have different secrets: RONDE_SECRET_FILE must hold the same one "
            "on all hosts"
        )


def _peer(text: bytes) -> Peer:
    return Peer.from_fields(json.loads(text))


def _fields_of(error: Error) -> dict[str, Any]:
    """An error as other ranks read it."""
    names = ("rank", "host", "pid") if isinstance(error, RankFailure) else ()
    about = {name: getattr(error, name) for name in names}
    return {"why": str(error), "kind": type(error).__name__, "about": about}


def _error_of(fields: dict[str, Any]) -> Error:
    """The inverse of _fields_of()."""
    error = _KINDS[fields["kind"]](fields["why"])
    for name, value in fields["about"].items():
        setattr(error, name, value)
    return error
