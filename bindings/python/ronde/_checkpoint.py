"""Checkpoints of elastic states: files that a background thread writes, completely or not at all.

A file is one line, "ronde checkpoint 1 STEP BYTES SHA256", then the state as its class packs it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from ronde import _epochs
from ronde._errors import Error, InvalidArgumentError, UnsupportedError
from ronde._job import rank

_SUFFIX = ".ronde"
_HEADER = re.compile(rb"ronde checkpoint 1 (\d+) (\d+) ([0-9a-f]{64})\n")
_LONGEST_HEADER = 200


class Checkpoints:
    """The checkpoint files of one state. Threads: the training's, and one that writes."""

    def __init__(self, state: Any, path: Any, every: int, keep: int) -> None:
        """See State.checkpoint()."""
        for name, value in (("every", every), ("keep", keep)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgumentError(f"{name}={value!r}; allowed: whole numbers from 1")
        if not hasattr(state, "_pack"):
            raise UnsupportedError(
                f"checkpoint() works for the states of ronde, not for {type(state).__name__}"
            )
        self._path = Path(os.path.abspath(os.fspath(path)))
        self._every, self._keep = every, keep
        self._writer: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._written = 0
        _epochs.worker.can_resume = self.newest_step() > 0

    def files(self) -> list[tuple[int, Path]]:
        """(step, file) of all files, the newest first."""
        found = []
        for path in self._path.parent.glob(f"{self._path.name}.*{_SUFFIX}"):
            step = path.name[len(self._path.name) + 1 : -len(_SUFFIX)]
            if step.isdigit():
                found.append((int(step), path))
        return sorted(found, reverse=True)

    def newest_step(self) -> int:
        """The step of the newest file that is whole; 0 if there is none."""
        return next((step for step, path in self.files() if read(path) is not None), 0)

    def load(self, state: Any) -> None:
        """Gives the state the newest file's. Raises Error if there is none."""
        for _, path in self.files():
            data = read(path)
            if data is not None:
                state._unpack(data)
                return
        raise Error(f"no checkpoint {self._path}.*{_SUFFIX} can be read")

    def on_commit(self, state: Any) -> None:
        """Starts writing the committed state if it is time."""
        if state._certain % self._every or rank() != 0:
            return
        self.wait()
        step, copy = state._certain, state._snapshot()
        self._writer = threading.Thread(
            target=self._write, args=(state, step, copy), name="ronde-checkpoint"
        )
        self._writer.start()

    def write_committed(self, state: Any) -> None:
        """Writes the newest copy, and waits for it: the job ends."""
        self.wait()
        if self._written < state._step:
            self._write(state, state._step, state._snapshot())
            self.wait()

    def wait(self) -> None:
        """Waits for the file that is being written. Warns if it could not be: training goes on."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        problem, self._problem = self._problem, None
        if problem is not None:
            warnings.warn(f"cannot write the checkpoint {self._path}: {problem}", stacklevel=2)

    def _write(self, state: Any, step: int, copy: Any) -> None:
        try:
            write(self._file(step), step, state._pack(copy))
            self._written = step
            for _, path in self.files()[self._keep :]:
                path.unlink(missing_ok=True)
        except BaseException as error:  # raised in wait()
            self._problem = error

    def _file(self, step: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{step:012}{_SUFFIX}")


def write(path: Path, step: int, data: bytes | memoryview) -> None:
    """Writes a file that is there completely or not at all, also after a loss of power."""
    digest = hashlib.sha256(data).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(f"ronde checkpoint 1 {step} {len(data)} {digest}\n".encode())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> bytes | None:
    """The state in a file; None if the file is not whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    header = _HEADER.match(content[:_LONGEST_HEADER])
    if header is None:
        return None
    data = content[header.end() :]
    good = len(data) == int(header[2]) and hashlib.sha256(data).hexdigest() == header[3].decode()
    return data if good else None
