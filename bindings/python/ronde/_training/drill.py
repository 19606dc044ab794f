"""Faults that `ronde run --inject` plants in parameters and the optimizer's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ronde._job.runtime import runtime
from ronde._training.replicas import Fact

_LAST_STEP = 2**63


def is_planting() -> bool:
    """True if this rank is to plant faults after some step."""
    return bool(runtime().replica_tensors(_LAST_STEP))


def plant(facts: Callable[[], Iterable[Fact]], step: int) -> None:
    """Plants those that are due after this step of the optimizer."""
    parts = runtime().replica_tensors(step)
    if not parts:
        return
    for fact in list(facts()):
        if not any(part in fact.name for part in parts) or (data := fact.bytes()) is None:
            continue
        data = data.copy()
        if runtime().plant_in(fact.name, fact.dtype, data, fact.item_bytes(data), step):
            fact.write(data)
