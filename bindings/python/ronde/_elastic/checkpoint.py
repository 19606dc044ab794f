"""Checkpoints of elastic states, which a background thread writes."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ronde import _core
from ronde._calls.argument_checks import check, shown
from ronde._errors import Error, InvalidArgumentError, UnsupportedError
from ronde._job.runtime import is_initialized, local_rank, rank
from ronde._membership import epochs

_SUFFIXES = {"ronde": ".ronde", "dcp": ".dcp"}  # by format
_NONE_WHOLE = ("warn", "error")


def _refuse_unfit(state: Any, every: int, keep: int, format: str | None, none_whole: str) -> None:
    for name, value in (("every", every), ("keep", keep)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidArgumentError(f"{name}={shown(value)}; allowed: whole numbers from 1")
    if none_whole not in _NONE_WHOLE:
        raise InvalidArgumentError(f"none_whole={shown(none_whole)}; allowed: 'warn', 'error'")
    if not hasattr(state, "_pack"):
        raise UnsupportedError(
            f"checkpoint() works for the states of ronde, not for {type(state).__name__}"
        )
    formats = state._checkpoint_formats()
    if format not in (None, *formats):
        allowed = ", ".join(map(repr, formats))
        raise InvalidArgumentError(f"format={shown(format)}; allowed for this state: {allowed}")


def begin_from_scratch(damaged: list[str], forbidden: bool) -> None:
    """Says that training begins from scratch though these files are there, or raises Error."""
    said = ", ".join(damaged[:4]) + (f" and {len(damaged) - 4} more" if damaged[4:] else "")
    text = f"no checkpoint is whole; damaged: {said}"
    if forbidden:
        raise epochs.CheckpointsDamagedError(
            f'{text}. checkpoint(none_whole="error") forbids to begin from scratch: bring back a '
            "whole one, or remove these"
        )
    if rank() == 0:
        warnings.warn(f"{text}. Training begins from scratch", stacklevel=2)


# Parts that take values of any form. Others, such as torch's models, refuse what does not fit.
_SHAPED = ("arrays", "variables")
_OF_ANY_FORM = (*_SHAPED, "objects", "samplers")


def check_form(part: str, saved: Any, live: Any) -> None:
    """Raises InvalidArgumentError unless a file's part has the names and shapes of the live one.

    An optimizer's variables may be newer than the live copy of them.
    """
    if part not in _OF_ANY_FORM:
        return
    if type(saved) is not type(live):
        raise InvalidArgumentError("it was written by a state of another kind")
    if isinstance(live, dict):
        if saved.keys() != live.keys():
            raise InvalidArgumentError(
                f"it has the {part} {_listed(saved)}, but this state has {_listed(live)}"
            )
        pairs = [(name, saved[name], live[name]) for name in live]
    else:
        if len(saved) < len(live):
            raise InvalidArgumentError(
                f"it has {len(saved)} variables, but this state has {len(live)}"
            )
        pairs = [(f"variable {index}", *two) for index, two in enumerate(zip(saved, live))]
    for name, old, new in pairs if part in _SHAPED else ():
        if np.shape(old) != np.shape(new):
            raise InvalidArgumentError(
                f"its {name} has shape {list(np.shape(old))}, but this state's has "
                f"{list(np.shape(new))}"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


class Checkpoints:
    """The checkpoint files of one state. Threads: the training's, and one that writes."""

    def __init__(
        self,
        state: Any,
        path: Any,
        every: int,
        keep: int,
        format: str | None = None,
        none_whole: str = "warn",
    ) -> None:
        """See State.checkpoint()."""
        check(path=path)
        _refuse_unfit(state, every, keep, format, none_whole)
        self._format = format or state._checkpoint_formats()[0]
        own = _SUFFIXES[self._format]  # of new files
        suffixes = [own, *(suffix for suffix in _SUFFIXES.values() if suffix != own)]
        self._path = os.path.abspath(os.fsdecode(path))
        self._files = _core.CheckpointFiles(self._path, suffixes, keep, none_whole == "error")
        self._every = every
        self._writer: threading.Thread | None = None
        worker = epochs.member()
        # Joiners are waited for: they check no files, which the others may still write.
        held = worker is not None and worker.state_is_held()
        can_load = self._files.any() if held else self.newest_step() > 0
        if worker is not None:
            worker.can_load(can_load)

    def newest_step(self) -> int:
        """The step of the newest file that is whole; 0 if there is none."""
        newest = self._files.newest_step()
        self._tell_problems()
        return newest

    def file_of(self, step: int) -> Path:
        """The whole file or folder of this step."""
        return self._files.whole(step) or Path(self._path)

    def damaged(self) -> list[str]:
        """The files that are not whole: those that are set aside, and any that cannot be."""
        return [str(path) for path in self._files.damaged()]

    def tell(self, facts: _core.StartFacts) -> None:
        """Adds what this rank can load."""
        self.wait()
        self._files.tell(facts)
        self._tell_problems()

    def load(self, state: Any, step: int | None = None) -> None:
        """Gives the state the file of this step, by default the newest. Raises Error without it."""
        step = step or self._files.newest_step()
        path = self._files.whole(step)
        self._tell_problems()
        if path is None:
            raise Error(f"no checkpoint {self._path}.* can be read")
        if path.is_dir():
            state._load_folder(path)
        else:
            state._unpack(self._files.read(step))

    def on_commit(self, state: Any) -> None:
        """Starts writing the committed state if it is time."""
        self._tell_problems()
        if state._progress.certain % self._every or rank() != 0:
            return
        self.wait()
        step, copy = state._progress.certain, state._snapshot()
        self._writer = threading.Thread(
            target=self._write, args=(state, step, copy), name="ronde-checkpoint"
        )
        self._writer.start()

    def write_committed(self, state: Any) -> None:
        """Writes the newest copy, unless some rank has: the job ends."""
        self.wait()
        if self._files.whole(state._progress.step) is None:
            self._write(state, state._progress.step, state._snapshot())
        self._tell_problems()

    def wait(self) -> None:
        """Waits for the file that is being written. Warns if it could not be: training goes on."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self._tell_problems()

    def _write(self, state: Any, step: int, copy: Any) -> None:
        if self._format == "dcp":
            self._files.write_folder(step, lambda folder: state._save_folder(folder, copy))
            return
        try:
            self._files.write(step, state._pack(copy))
        except Exception as error:  # the kinds of errors depend on the state
            self._files.note_unwritten(step, str(error))

    def _tell_problems(self) -> None:
        for problem in self._files.take_problems(not is_initialized() or local_rank() == 0):
            warnings.warn(problem, stacklevel=3)
