"""Parameters that return as quantised differences from the values that all ranks have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ronde._calls.handle import Handle

MASTER, SHOWN = "ronde_master", "ronde_shown"  # keys of a parameter's state


class Differences:
    """The exact values of this rank's chunk, which the parameters of all ranks follow.

    All ranks add the same decoded differences to the same values. The next difference contains
    what this one loses.
    """

    def __init__(self, own: torch.Tensor) -> None:
        """own: this rank's chunk of the parameters that all ranks have."""
        self.own = own
        self.master = own.clone()
        self.shown = own.clone()  # `own` as it was when it last changed here
        self.returned = False

    def follow(self) -> None:
        """Takes over elements that other code has changed, as load_state_dict() of a model does."""
        changed = self.own != self.shown
        if changed.any():
            self.master[changed] = self.own[changed]
            self.shown.copy_(self.own)

    def subtract(self, out: torch.Tensor) -> None:
        """Writes the difference that other ranks need."""
        torch.sub(self.master, self.own, out=out)

    def note_return(self) -> None:
        """The difference has been added to `own`."""
        self.shown.copy_(self.own)
        self.returned = True

    def part(self, start: int, stop: int) -> Exact:
        """Some elements."""
        parts = (one[start:stop] for one in (self.own, self.master, self.shown))
        return Exact(self, *parts)

    def bytes(self) -> int:
        """The memory of exact values and what is compared with them."""
        return 2 * self.master.numel() * self.master.element_size()


class Exact(NamedTuple):
    """A parameter's part of a rank's Differences."""

    of: Differences
    own: torch.Tensor
    master: torch.Tensor
    shown: torch.Tensor

    def saved(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: nothing before the first step.

        The master counts after a load where the parameter then is as it was shown.
        """
        return {MASTER: self.master, SHOWN: self.shown} if self.of.returned else {}

    def restore(self, saved: dict[str, Any]) -> None:
        """Goes on from saved(), or from the parameter where nothing was saved."""
        exact = MASTER in saved and SHOWN in saved
        self.master.copy_(saved[MASTER] if exact else self.own)
        self.shown.copy_(saved[SHOWN] if exact else self.own)
        self.of.returned = self.of.returned or exact


class Arriving:
    """Differences on their way. The parameters change when somebody waits."""

    def __init__(self, handle: Handle[Any], apply: Callable[[], None]) -> None:
        """apply: changes the parameters."""
        self._handle, self._apply = handle, apply
        self._over = False

    def done(self) -> bool:
        """True if the memory of the differences is free again: never after an error."""
        return self._over

    def wait(self, timeout: float | None = None) -> None:
        """As Handle.wait(), which raises an operation's error each time."""
        if self._over:
            return
        self._handle.wait(timeout=timeout)
        self._over = True
        self._apply()
