"""A barrier that names the missing ranks."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from ronde._errors import InvalidArgumentError, TimeoutError
from ronde.torch.distributed._messages import MessageGroup

# The number of missing ranks that a verdict names, and the bytes for them.
_MOST_NAMES = 4096
_VERDICT_BYTES = 64 << 10


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Returns once all ranks of the group have called it; else raises with the missing ranks.

    timeout: seconds or a timedelta; the group's by default. wait_all_ranks: name all missing ranks,
    not the first only. Raises the same TimeoutError on every rank, also on a late one.
    """
    chosen = dist.group.WORLD if group is None else group
    if dist.get_rank(chosen) < 0:
        return
    if not isinstance(chosen, MessageGroup):
        raise InvalidArgumentError("monitored_barrier: the group's backend is not ronde")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    limit_s = chosen._limit_s if seconds is None else seconds
    if chosen.rank() == 0:
        _lead(chosen, limit_s, wait_all_ranks)
    else:
        _follow(chosen, limit_s)


def _lead(group: MessageGroup, limit_s: float, wait_all_ranks: bool) -> None:
    deadline = time.monotonic() + limit_s
    tag = group.next_barrier_tag()
    others = range(1, group.size())
    words = [group._receive(torch.empty(1), group._ranks[rank], tag) for rank in others]
    missing: list[int] = []
    for rank, word in zip(others, words):
        try:
            word.wait(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
        except TimeoutError:
            missing.append(rank)
            if not wait_all_ranks:
                break
    verdict = json.dumps([missing[:_MOST_NAMES], limit_s]).encode().ljust(_VERDICT_BYTES)
    for rank in others:  # late ranks get it too
        group._send(torch.frombuffer(bytearray(verdict), dtype=torch.uint8), rank, tag)
    _judge(missing, limit_s)


def _follow(group: MessageGroup, limit_s: float) -> None:
    tag = group.next_barrier_tag()
    group._send(torch.zeros(1), 0, tag).wait()
    verdict = torch.empty(_VERDICT_BYTES, dtype=torch.uint8)
    answer = group._receive(verdict, group._ranks[0], tag)
    try:
        # Rank 0 may have come later than this rank, and waits as long.
        answer.wait(timedelta(seconds=2 * limit_s + 1))
    except TimeoutError:
        raise TimeoutError(f"monitored_barrier: rank 0 did not come within {limit_s} s") from None
    missing, limit_s = json.loads(bytes(verdict.numpy()))
    _judge(missing, limit_s)


def _judge(missing: list[int], limit_s: float) -> None:
    if missing:
        names = ", ".join(map(str, missing))
        raise TimeoutError(f"monitored_barrier: rank {names} did not come within {limit_s} s")
