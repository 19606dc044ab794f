"""Checkpoints of elastic states, which a background thread writes: completely or not at all.

A file (.ronde) is one line, "ronde checkpoint 1 STEP BYTES SHA256", then the state as its class
packs it. A folder (.dcp) has the files of torch.distributed.checkpoint, and their checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ronde import _epochs
from ronde._errors import Error, InvalidArgumentError, UnsupportedError
from ronde._job import rank

_SUFFIXES = {"ronde": ".ronde", "dcp": ".dcp"}  # by format
_CHECKSUMS = "ronde.json"
_HEADER = re.compile(rb"ronde checkpoint 1 (\d+) (\d+) ([0-9a-f]{64})\n")
_LONGEST_HEADER = 200


class Checkpoints:
    """The checkpoint files of one state. Threads: the training's, and one that writes."""

    def __init__(
        self, state: Any, path: Any, every: int, keep: int, format: str | None = None
    ) -> None:
        """See State.checkpoint()."""
        for name, value in (("every", every), ("keep", keep)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgumentError(f"{name}={value!r}; allowed: whole numbers from 1")
        if not hasattr(state, "_pack"):
            raise UnsupportedError(
                f"checkpoint() works for the states of ronde, not for {type(state).__name__}"
            )
        formats = state._checkpoint_formats()
        if format not in (None, *formats):
            allowed = ", ".join(map(repr, formats))
            raise InvalidArgumentError(f"format={format!r}; allowed for this state: {allowed}")
        self._format = format or formats[0]
        self._path = Path(os.path.abspath(os.fspath(path)))
        self._every, self._keep = every, keep
        self._writer: threading.Thread | None = None
        self._problem: BaseException | None = None
        self._written = 0
        _epochs.worker.can_resume = self.newest_step() > 0

    def files(self) -> list[tuple[int, Path]]:
        """(step, file or folder) of all of them, the newest first."""
        found = []
        for suffix in _SUFFIXES.values():
            for path in self._path.parent.glob(f"{self._path.name}.*{suffix}"):
                step = path.name[len(self._path.name) + 1 : -len(suffix)]
                if step.isdigit():
                    found.append((int(step), path))
        return sorted(found, reverse=True)

    def newest_step(self) -> int:
        """The step of the newest file that is whole; 0 if there is none."""
        return next((step for step, path in self.files() if is_whole(path)), 0)

    def load(self, state: Any) -> None:
        """Gives the state the newest file's. Raises Error if there is none."""
        for _, path in self.files():
            if path.is_dir() and is_whole(path):
                state._load_folder(path)
                return
            data = read(path)
            if data is not None:
                state._unpack(data)
                return
        raise Error(f"no checkpoint {self._path}.* can be read")

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
            path = self._file(step)
            if self._format == "dcp":
                write_folder(path, lambda folder: state._save_folder(folder, copy))
            else:
                write(path, step, state._pack(copy))
            self._written = step
            for _, old in self.files()[self._keep :]:
                remove(old)
        except BaseException as error:  # raised in wait()
            self._problem = error

    def _file(self, step: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{step:012}{_SUFFIXES[self._format]}")


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
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Makes a file or folder survive a loss of power."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Makes a folder, which fill(folder) fills with files; likewise completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        part.chmod(0o755)
        fill(part)
        sums = {one.name: _checksum(one) for one in sorted(part.iterdir())}
        (part / _CHECKSUMS).write_text(json.dumps({"version": 1, "sha256": sums}))
        for file in [*part.iterdir(), part]:
            _flush(file)
        remove(path)
        os.rename(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _flush(path.parent)


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def remove(path: Path) -> None:
    """Removes a file or a folder, if it is there. A folder is first given another name."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    away = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
    os.rename(path, away)
    shutil.rmtree(away, ignore_errors=True)


def is_whole(path: Path) -> bool:
    """True if the file or folder is as it was written."""
    if not path.is_dir():
        return read(path) is not None
    try:
        sums = json.loads((path / _CHECKSUMS).read_text())["sha256"]
        return all(_checksum(path / name) == digest for name, digest in sums.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


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
