"""Gradients that are not finite, until the optimizer's step.

A GradScaler makes such gradients on purpose, and then leaves out the step: that is no fault.
"""

from __future__ import annotations

from typing import Any

from ronde._calls.handle import Handle
from ronde._job.runtime import runtime
from ronde.torch._optimizers.gradients import Bucket


class Findings:
    """What the reductions of one step have found, the same on all ranks."""

    def __init__(self) -> None:
        """Has none."""
        self._found: list[tuple[Handle[Any], str]] = []

    def clear(self) -> None:
        """Forgets all: a new step begins."""
        self._found.clear()

    def note(self, handle: Handle[Any], bucket: Bucket) -> None:
        """Adds what an operation that has ended found in the bucket's gradients."""
        found = getattr(handle, "finding", None)  # sparse gradients have other handles
        if found is not None:
            self._found.append((handle, bucket.place_of(*found)))

    def judge(self, outcome: str = "") -> None:
        """Warns of the first, or raises NonFiniteError, as the setting says. Then it has none."""
        found, self._found = self._found, []
        if not found:
            return
        handle, name = found[0]
        more = len(found) - 1
        handle.judge(f"{name}, and {more} more" if more else name, outcome)

    def forbid_step(self) -> bool:
        """Judges what was found. True if the step is to be left out."""
        if not self._found:
            return False
        skips = runtime().setting("RONDE_CHECK_NONFINITE") == "skip"
        self.judge("the step is left out on all ranks" if skips else "")
        return skips
