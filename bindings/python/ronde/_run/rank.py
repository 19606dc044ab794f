"""One rank of ronde.run(): calls the function and writes its answer.

usage: python -m ronde._run.rank [FOLDER]

The agent that has started this rank gives it the call and takes its answer, both as memory files.
mpirun does not: ranks that it starts use FOLDER.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

from ronde import _core
from ronde._membership import epochs
from ronde._run import call as _call
from ronde._run import function


def main(folder: Path | None) -> int:
    """Answers (True, result, host) or (False, traceback, host); returns the status.

    A worker of an elastic job adds its last epoch and rank; it does not answer if it was dismissed.
    """
    elastic = epochs.available()
    number = epochs.worker().worker if elastic else _core.launched_job()[0]
    answer_file = _own_descriptor("RONDE_ANSWER_FD") if folder is None else -1
    host = os.environ.get("HOROVOD_HOSTNAME", "")
    good = True
    try:
        function.importing = True
        func, args, kwargs = _call.unpacked(_read_call(folder))
        function.importing = False
        value = func(*args, **kwargs)
        answer = bytes(_call.pickler().dumps((True, value, host, *_place(elastic, number))))
    except epochs.DismissedError:
        return 0
    except BaseException:
        good = False
        answer = pickle.dumps((False, traceback.format_exc(), host, *_place(elastic, number)))
    if folder is None:
        _seal(answer_file, answer)
    else:
        part = folder / f"{number}.part"
        part.write_bytes(answer)
        part.rename(folder / f"{number}.pickle")  # atomic
    return 0 if good else 1


def _own_descriptor(variable: str) -> int:
    """A descriptor from the agent, which programs that the function starts do not get."""
    return _core.passed_descriptor(variable, int(os.environ.pop(variable)))


def _read_call(folder: Path | None) -> bytes:
    if folder is not None:
        return (folder / _call.CALL).read_bytes()
    descriptor = _own_descriptor("RONDE_CALL_FD")
    # The ranks of this host share the file's position.
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as call:
        os.close(descriptor)
        return bytes(call)


def _seal(descriptor: int, answer: bytes) -> None:
    """Writes the answer, and marks it as whole."""
    with open(descriptor, "wb") as file:
        file.write(answer)
        file.flush()
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def _place(elastic: bool, number: int) -> tuple[Any, ...]:
    """A worker's last epoch and rank; its number serves if it has joined none."""
    if not elastic:
        return ()
    place = epochs.place()
    return (place.epoch, place.rank) if place else (0, number)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else None))
