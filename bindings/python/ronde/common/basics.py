"""HorovodBasics: the job's functions as methods of one object."""

from __future__ import annotations

from typing import Any

from ronde._job.process_sets import registered_sets
from ronde._membership import joining

__all__ = ["HorovodBasics"]


class HorovodBasics:
    """Has init(), rank(), size() and all other functions of ronde that ask about the job."""

    def __init__(self, pkg_path: str = "", *names: str) -> None:
        """Horovod's arguments name its library; Ronde needs none."""
        del pkg_path, names

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        """The ranks of each process set, by its number. Horovod's tests call it."""
        others = {number: list(made.ranks) for number, made in registered_sets.items()}
        return {0: list(range(joining.size())), **others}

    def __getattr__(self, name: str) -> Any:
        """The function of this name. Raises AttributeError if there is none."""
        if name not in joining.__all__:
            raise AttributeError(f"HorovodBasics has no {name}")
        return getattr(joining, name)

    def __dir__(self) -> list[str]:
        """The names of these functions."""
        return [*super().__dir__(), *joining.__all__]
