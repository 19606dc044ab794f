"""Ray's failures as Ronde's errors, which name rank and node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import ray
import ray.exceptions as failures

from ronde._errors import AbortedError, Error, RankFailure, TimeoutError, UnavailableError
from ronde.ray._places import Place

# After one rank has failed, the others have so long to tell the cause, in seconds.
SETTLE_S = 5.0

# A worker, or its node, is gone.
_DEATHS = (
    *(failures.RayActorError, failures.NodeDiedError),
    *(failures.OutOfMemoryError, failures.WorkerCrashedError),
)


def node_is_dead(node: str) -> bool:
    """True if Ray says so."""
    return any(each["NodeID"] == node and not each["Alive"] for each in ray.nodes())


def death_of(rank: int, places: Sequence[Place], error: BaseException) -> RankFailure:
    """The error for the rank whose worker has died."""
    place = places[rank]
    part = "its node has died" if node_is_dead(place.node) else "its worker or its node has died"
    found = RankFailure(f"rank {rank} of {len(places)} ({place}): {part}: {reason_of(error)}")
    found.rank, found.host, found.pid = rank, place.address, place.pid
    return found


def reason_of(error: BaseException) -> str:
    """Ray's reason in one line, without the lines about the actor and Ray's guesses."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    known = ("class_name:", "actor_id:", "pid:", "name:", "namespace:", "ip:")
    text = " ".join(line for line in lines if not line.startswith(known))
    return text.partition(" Some common causes include")[0]


def results_of(refs: Sequence[Any], places: Sequence[Place], limit_s: float | None = None) -> Any:
    """The results of all ranks, by rank; raises the error that made the job fail.

    A rank that dies raises RankFailure. The first error ends the wait SETTLE_S later; errors that
    only tell of another rank count last. limit_s: TimeoutError after so many seconds.
    """
    pending = {ref: rank for rank, ref in enumerate(refs)}
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}
    deadline = None if limit_s is None else time.monotonic() + limit_s
    settled: float | None = None
    while pending:
        ends = [end for end in (deadline, settled) if end is not None]
        left = max(0.0, min(ends) - time.monotonic()) if ends else None
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=left)
        if not ready:
            break
        rank = pending.pop(ready[0])
        try:
            results[rank] = ray.get(ready[0])
        except Exception as error:
            errors[rank] = error
            settled = settled or time.monotonic() + SETTLE_S
    if errors:
        raise_first(errors, places)
    if pending:
        missing = sorted(pending.values())
        late = TimeoutError(
            f"ranks {', '.join(map(str, missing))} of {len(places)} did not answer within "
            f"{limit_s:g} s; the first of them: {places[missing[0]]}"
        )
        late.rank = missing[0]
        raise late
    return [results[rank] for rank in range(len(refs))]


def raise_first(errors: dict[int, BaseException], places: Sequence[Place]) -> None:
    """Raises the error of the rank that failed first. `errors`: by rank, in order of time."""

    def weight(item: tuple[int, BaseException]) -> int:
        cause = getattr(item[1], "cause", item[1])
        return 2 if isinstance(cause, (RankFailure, AbortedError)) else 1

    deaths = [(rank, error) for rank, error in errors.items() if isinstance(error, _DEATHS)]
    rank, error = (deaths or sorted(errors.items(), key=weight))[0]
    if deaths:
        raise death_of(rank, places, error) from error
    text = f"raised by rank {rank} of {len(places)} ({places[rank]})"
    cause = getattr(error, "cause", None)
    chosen = cause if isinstance(cause, Error) else error
    if hasattr(chosen, "add_note"):
        chosen.add_note(text)
    if chosen is error:
        raise error
    raise chosen from error


def no_room(bundles: Sequence[dict[str, float]], limit_s: float, current: bool) -> TimeoutError:
    """The error for workers that Ray finds no room for."""
    wanted = ", ".join(f"{count} x {dict(kind)}" for kind, count in _counted(bundles))
    free = {
        name: amount
        for name, amount in sorted(ray.available_resources().items())
        if not name.startswith(("node:", "memory", "object_store_memory")) and "_group_" not in name
    }
    where = "in the current placement group" if current else "as a placement group"
    advice = "; use_current_placement_group=False makes one of its own" if current else ""
    return TimeoutError(
        f"Ray found no room for the workers within {limit_s:g} s: wanted {where}: {wanted}; "
        f"free in the cluster: {free}{advice}"
    )


def _counted(
    bundles: Sequence[dict[str, float]],
) -> list[tuple[tuple[tuple[str, float], ...], int]]:
    counts: dict[tuple[tuple[str, float], ...], int] = {}
    for bundle in bundles:
        key = tuple(sorted(bundle.items()))
        counts[key] = counts.get(key, 0) + 1
    return list(counts.items())


def unavailable(error: BaseException, while_doing: str) -> UnavailableError:
    """The error for a worker that has died before it had a rank."""
    return UnavailableError(f"a worker has died {while_doing}: {reason_of(error)}")
