"""Checkpoints of elastic states, which a background thread writes: completely or not at all.

Only files that were checked count: others are set aside under another name, and never used.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ronde._calls.argument_checks import check, shown
from ronde._elastic import checkpoint_files as _files
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
        self._path = Path(os.path.abspath(os.fsdecode(path)))
        suffixes = "|".join(map(re.escape, _SUFFIXES.values()))
        self._names = re.compile(rf"{re.escape(self._path.name)}\.([0-9]+)(?:{suffixes})")
        self._every, self._keep = every, keep
        self.needs_whole = none_whole == "error"  # where there are damaged files
        self._whole: dict[Path, _files.Signature] = {}  # files that were checked, as they were
        self._told: set[Path] = set()  # that cannot be read
        self._told_later = False
        self._writer: threading.Thread | None = None
        self._problems: list[str] = []
        self._written = 0
        epochs.worker.has_checkpoint = self._can_resume()

    def files(self) -> list[tuple[int, Path]]:
        """(step, file or folder) of all of them, the newest first."""
        return _files.find(self._path.parent, self._names)

    def newest_step(self) -> int:
        """The step of the newest file that is whole; 0 if there is none."""
        return next((step for step, path in self.files() if self._is_whole(step, path)), 0)

    def file_of(self, step: int) -> Path:
        """The file or folder that has this step's number."""
        return next((path for there, path in self.files() if there == step), self._path)

    def damaged(self) -> list[str]:
        """The files that are not whole: those that are set aside, and any that cannot be."""
        left = [path for step, path in self.files() if not self._is_whole(step, path)]
        aside = _files.find_damaged(self._path.parent, self._names)
        return [str(path) for path in (*aside, *left) if os.path.lexists(path)]

    def load(self, state: Any, step: int | None = None) -> None:
        """Gives the state the file of this step, by default the newest. Raises Error without it."""
        for there, path in self.files():
            if step not in (None, there) or not self._is_whole(there, path):
                continue
            if path.is_dir():
                state._load_folder(path)
                return
            data = _files.read(path, there)
            if data is not None:
                state._unpack(data)
                return
        raise Error(f"no checkpoint {self._path}.* can be read")

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
        if self._written < state._progress.step and not self._is_there(state._progress.step):
            self._write(state, state._progress.step, state._snapshot())
            self.wait()

    def wait(self) -> None:
        """Waits for the file that is being written. Warns if it could not be: training goes on."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self._tell_problems()

    def _tell_problems(self) -> None:
        problems, self._problems = self._problems, []
        for problem in problems:
            warnings.warn(problem, stacklevel=3)

    # Checks.

    def _can_resume(self) -> bool:
        """Joiners are waited for: they check no files, which the others may still write."""
        place = epochs.worker.place
        held = place is not None and any(place.holders)
        return bool(self.files()) if held else self.newest_step() > 0

    def _is_whole(self, step: int, path: Path) -> bool:
        """Sets a damaged file aside. Checks a file once, and again when it has changed."""
        known = _files.signature(path)
        if known is not None and self._whole.get(path) == known:
            return True
        self._whole.pop(path, None)
        try:
            problem = _files.problem_of(path, step)
        except OSError as error:
            self._tell_unreadable(path, f"cannot be read: {error.strerror}; it is not used")
            return False
        if problem:
            self._set_aside(path, problem)
        elif known is not None:
            self._whole[path] = known
        return not problem

    def _set_aside(self, path: Path, problem: str) -> None:
        """The rank that renames the file says so; others find it gone."""
        try:
            aside = _files.set_aside(path)
        except OSError as error:
            why = f"cannot be set aside: {error.strerror}"
            self._tell_unreadable(path, f"is damaged: {problem}. It is not used, but {why}")
            return
        if aside is not None:
            warnings.warn(
                f"the checkpoint {path} is damaged: {problem}. It is not used, and set aside as "
                f"{aside.name}",
                stacklevel=2,
            )

    def _tell_unreadable(self, path: Path, problem: str) -> None:
        """Once a host."""
        if path in self._told or not os.path.lexists(path):
            return
        self._told.add(path)
        if not is_initialized() or local_rank() == 0:
            warnings.warn(f"the checkpoint {path} {problem}", stacklevel=2)

    # Writing.

    def _file(self, step: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{step:012}{_SUFFIXES[self._format]}")

    def _is_there(self, step: int) -> bool:
        """True if this step's file is whole. One that is damaged gives its name up."""
        path = self._file(step)
        return os.path.lexists(path) and self._is_whole(step, path)

    def _write(self, state: Any, step: int, copy: Any) -> None:
        path = self._file(step)
        with self._noted(f"cannot write the checkpoint {path}"):
            _files.remove_stale_parts(self._path.parent, self._names)
            self._is_there(step)
            if self._format == "dcp":
                _files.write_folder(path, step, lambda folder: state._save_folder(folder, copy))
            else:
                _files.write(path, step, state._pack(copy))
            self._written = step
            known = _files.signature(path)
            if known is not None:
                self._whole[path] = known
        if self._written == step:
            with self._noted(f"cannot remove the checkpoints before {path}"):
                self._remove_older(step)

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Keeps a problem for the training's thread."""
        try:
            yield
        except Exception as error:  # the kinds of errors depend on the state
            self._problems.append(f"{what}: {error}")

    def _remove_older(self, step: int) -> None:
        """Keeps the newest whole files up to this step. Later ones are of another training."""
        whole = [each for each in self.files() if self._is_whole(*each)]
        for _, path in [each for each in whole if each[0] <= step][self._keep :]:
            _files.remove(path)
            self._whole.pop(path, None)
        later = [path.name for there, path in whole if there > step]
        if later and not self._told_later:
            self._told_later = True
            self._problems.append(
                f"checkpoints of later steps than {step} are there: {', '.join(later[:4])}. A job "
                "that starts again goes on from the newest of them"
            )
