"""The graph ops' library: compiled against the installed TensorFlow, once, into a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from ronde._errors import UnavailableError

_PACKAGED = Path(__file__).resolve().parents[1] / "tensorflow" / "source"
_CHECKOUT = Path(__file__).resolve().parents[3] / "tensorflow"
_STEP_S = 5  # between two lines of progress, where they cannot replace each other


def _source_folders() -> list[Path]:
    """The folders of the sources and of ronde_c.h, in the installed package or a checkout."""
    if _PACKAGED.exists():
        return [_PACKAGED]
    return [_CHECKOUT, _CHECKOUT.parent / "c"]


def _sources() -> list[Path]:
    return sorted(f for folder in _source_folders() for f in folder.iterdir() if f.suffix == ".cc")


def _unity() -> str:
    """All sources as one: TensorFlow's headers take most of the compile time."""
    names = [file.name for file in _sources() if file.name != "ronde_c.cc"]
    return "".join(f'#include "{name}"\n' for name in names)


def compiler() -> str | None:
    """The C++ compiler ($CXX, else c++, else g++), or None where there is none."""
    given = os.environ.get("CXX")
    return shutil.which(given) if given else shutil.which("c++") or shutil.which("g++")


def _flags() -> list[str]:
    folders = [f"-I{folder}" for folder in _source_folders()]
    optimised = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
    return [*tf.sysconfig.get_compile_flags(), *folders, *optimised]


def _fingerprint() -> str:
    """A hash of the sources, TensorFlow's version and its build options."""
    digest = hashlib.sha256()
    headers = [f for folder in _source_folders() for f in folder.iterdir() if f.suffix == ".h"]
    for file in [*_sources(), *sorted(headers)]:
        digest.update(file.read_bytes())
    version = tf.version
    digest.update(
        "\0".join([version.VERSION, version.GIT_VERSION, version.COMPILER_VERSION]).encode()
    )
    digest.update(repr([f for f in _flags() if not f.startswith("-I")]).encode())
    return digest.hexdigest()[:16]


def path() -> Path:
    """The path of this TensorFlow's library, which may not exist yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ronde" / f"tensorflow-{tf.version.VERSION}-{_fingerprint()}.so"


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """A lock between processes, which ends with a killed holder."""
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _print_time(done: threading.Event) -> None:
    """Prints the time that has passed: in place on a terminal, else every _STEP_S seconds."""
    begin = time.monotonic()
    terminal = sys.stderr.isatty()
    while not done.wait(1 if terminal else _STEP_S):
        text = f"ronde: still compiling after {time.monotonic() - begin:.0f} s"
        _say(f"\r{text}" if terminal else text, end="" if terminal else "\n")
    if terminal:
        _say("")


@contextmanager
def _progress() -> Iterator[None]:
    """Shows on standard error that the block still runs, then how long it took."""
    begin = time.monotonic()
    done = threading.Event()
    printer = threading.Thread(target=_print_time, args=(done,), daemon=True)
    printer.start()
    try:
        yield
    finally:
        done.set()
        printer.join()
    _say(f"ronde: compiled in {time.monotonic() - begin:.0f} s")


def _compile(program: str, target: Path) -> None:
    handle, scratch = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    command = [program, *_flags(), "-x", "c++", "-", "-o", scratch]
    command += tf.sysconfig.get_link_flags()
    try:
        done = subprocess.run(command, input=_unity(), text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise UnavailableError(
                f"compiling the operations for TensorFlow {tf.version.VERSION} failed "
                f"({' '.join(command)}):\n{done.stderr[-4000:]}"
            )
        os.replace(scratch, target)  # atomic: no process loads half a library
        _seal(target)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _sum_file(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _seal(target: Path) -> None:
    """Records the state of the compiled file."""
    _sum_file(target).write_text(hashlib.sha256(target.read_bytes()).hexdigest())


def _is_whole(target: Path) -> bool:
    """True if the file is as it was compiled. Loading a damaged one can end the process."""
    try:
        return _sum_file(target).read_text() == hashlib.sha256(target.read_bytes()).hexdigest()
    except OSError:
        return False


def _remake(target: Path) -> None:
    """Compiles. Only one process at a time may call it."""
    program = compiler()
    if program is None:
        raise UnavailableError(
            f"there is no C++ compiler (CXX={os.environ.get('CXX', '')!r}, c++, g++)"
        )
    again = " again, as those in the cache cannot be used" if target.exists() else ", once"
    _say(
        f"ronde: compiling its operations for TensorFlow {tf.version.VERSION}{again} "
        f"(about 20 s; `ronde build tensorflow` does it ahead)"
    )
    with _progress():
        _compile(program, target)


def build() -> Path:
    """The library. Compiles it (about 20 seconds) if it is missing or damaged.

    Several processes may call it at once: one compiles, the others wait.
    Raises UnavailableError if there is no compiler or it fails, OSError if the cache
    (XDG_CACHE_HOME, else ~/.cache) cannot be written.
    """
    target = path()
    if _is_whole(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        if not _is_whole(target):
            _remake(target)
    return target


def copy_of(target: Path) -> int:
    """An identity of one compilation of a file."""
    return target.stat().st_ino


def discard(target: Path, copy: int) -> None:
    """Makes build() compile the library again, unless another process has done so since `copy`."""
    with _locked(target):
        if copy_of(target) == copy:
            _sum_file(target).unlink(missing_ok=True)
