"""The files of checkpoints: written completely or not at all, checked before they are used.

A file (.ronde) is one line, "ronde checkpoint 1 STEP BYTES SHA256", then the state as its class
packs it. A folder (.dcp) has the files of torch.distributed.checkpoint, and ronde.json with their
checksums. A writer holds a lock on its temporary file, whose name begins with a dot.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

CHECKSUMS = "ronde.json"
_HEADER = re.compile(rb"ronde checkpoint 1 (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})\n")
_LONGEST_HEADER = 200
_PIECE = 1 << 20  # bytes

Signature = tuple[tuple[int, ...], ...]


# Writing.


def write(path: Path, step: int, data: bytes | memoryview) -> None:
    """Writes a file that is there completely or not at all, also after a loss of power."""
    digest = hashlib.sha256(data).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            _lock(number)
            file.write(f"ronde checkpoint 1 {step} {len(data)} {digest}\n".encode())
            file.write(data)
            file.flush()
            os.fsync(number)
            os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(part)
        raise
    _flush(path.parent)


def write_folder(path: Path, step: int, fill: Callable[[Path], None]) -> None:
    """Makes a folder, which fill(folder) fills with files; likewise completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with _opened(part) as number:
            _lock(number)
            part.chmod(0o755)
            fill(part)
            sums = {one.name: _checksum(one) for one in sorted(part.iterdir())}
            text = json.dumps({"version": 1, "step": step, "sha256": sums})
            (part / CHECKSUMS).write_text(text)
            for file in [*part.iterdir(), part]:
                _flush(file)
            away = _moved_away(path)
            _rename_folder(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _flush(path.parent)
    shutil.rmtree(away, ignore_errors=True)


def _rename_folder(part: Path, path: Path) -> None:
    """Ranks whose launcher is gone write the same step at once: the first one's stays."""
    try:
        os.rename(part, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _lock(number: int) -> None:
    """Shows that the writer lives. Some file systems have no locks: their files are never stale."""
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flush(path: Path) -> None:
    """Makes a file or folder survive a loss of power."""
    with _opened(path) as number:
        os.fsync(number)


def remove(path: Path) -> None:
    """Removes a file or a folder, if it is there. A folder is first given another name."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(_moved_away(path), ignore_errors=True)


def _moved_away(folder: Path) -> str:
    """Gives a folder the name of a temporary one, which is returned."""
    away = tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
    with suppress(FileNotFoundError):
        os.rename(folder, away)
    return away


def remove_stale_parts(folder: Path, names: re.Pattern[str]) -> None:
    """Removes the temporary files of writers that were killed. names: of whole checkpoints."""
    for path in _listed(folder):
        name, _, random = path.name[1:].rpartition(".")
        if path.name.startswith(".") and random and names.fullmatch(name) and _is_unlocked(path):
            remove(path)


def _is_unlocked(path: Path) -> bool:
    try:
        with _opened(path) as number:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        return False


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


# Finding and checking.


def find(folder: Path, names: re.Pattern[str]) -> list[tuple[int, Path]]:
    """(step, file or folder) of all whose names fit, the newest first. names: group 1 is a step."""
    matches = [(names.fullmatch(path.name), path) for path in _listed(folder)]
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def find_damaged(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """The files that set_aside() has renamed."""
    damaged = re.compile(names.pattern + r"\.damaged(\.[0-9]+)?")
    return [path for path in _listed(folder) if damaged.fullmatch(path.name)]


def set_aside(path: Path) -> Path | None:
    """Renames a damaged checkpoint; returns its new path, None if it is gone. Raises OSError."""
    aside, number = path.with_name(f"{path.name}.damaged"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.damaged.{number}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return None
    return aside


def signature(path: Path) -> Signature | None:
    """Changes if the file or folder does; None if it cannot be read."""
    try:
        parts = sorted(path.iterdir()) if path.is_dir() else []
        facts = [os.stat(one) for one in (path, *parts)]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in facts)


def problem_of(path: Path, step: int) -> str:
    """Says why this is no whole checkpoint of this step; empty for one that is.

    Raises OSError if that cannot be found out.
    """
    if path.is_dir():
        return _problem_of_folder(path, step)
    if not _is_file(path):
        return "it is no file"
    with path.open("rb") as file:
        return _problem_of_file(file, step)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # a link to nowhere
            return False
        raise


def _problem_of_file(file: BinaryIO, step: int) -> str:
    start = file.read(_LONGEST_HEADER)
    header = _HEADER.match(start)
    if header is None:
        return "it does not begin as a checkpoint" if start else "it is empty"
    if int(header[1]) != step:
        return f"it holds step {int(header[1])}, not {step}"
    file.seek(0, os.SEEK_END)
    length = file.tell() - header.end()
    if length != int(header[2]):
        return f"it has {length} bytes of state, not {int(header[2])}"
    file.seek(header.end())
    same = _digest_of(file) == header[3].decode()
    return "" if same else "its checksum is not that of its content"


def _problem_of_folder(path: Path, step: int) -> str:
    try:
        facts = json.loads((path / CHECKSUMS).read_text())
        sums: dict[str, Any] = dict(facts["sha256"])
        written = int(facts.get("step", step))
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return f"its {CHECKSUMS} is missing or damaged"
    if written != step:
        return f"it holds step {written}, not {step}"
    for name, digest in sums.items():
        if not _is_file(path / name):
            return f"its file {name} is missing"
        if _checksum(path / name) != digest:
            return f"the checksum of {name} is not that of its content"
    return "" if sums else f"its {CHECKSUMS} names no files"


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return _digest_of(file)


def _digest_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def read(path: Path, step: int) -> bytes | None:
    """The state in a file; None if the file is not whole. Raises OSError."""
    with path.open("rb") as file:
        if _problem_of_file(file, step):
            return None
        file.seek(0)
        file.readline(_LONGEST_HEADER)
        return file.read()
