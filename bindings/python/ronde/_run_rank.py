"""One rank of ronde.run(): calls the function and writes its result.

usage: python -m ronde._run_rank FOLDER
"""

from __future__ import annotations

import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

from ronde import _core, _epochs, _run
from ronde._run import CALL, pickler


def main(folder: Path) -> int:
    """Writes (True, result) or (False, traceback) to FOLDER/<rank>.pickle; returns the status.

    A worker of an elastic job writes to FOLDER/<worker>.pickle, adding its last epoch and rank; it
    writes nothing if it was dismissed.
    """
    elastic = _epochs.available()
    number = _epochs.core.elastic_worker() if elastic else _core.launched_job()[0]
    good = True
    try:
        _run.importing = True
        func, args, kwargs = pickle.loads((folder / CALL).read_bytes())
        _run.importing = False
        value = func(*args, **kwargs)
        outcome = bytes(pickler().dumps((True, value, *_place(elastic, number))))
    except _epochs.DismissedError:
        return 0
    except BaseException:
        good = False
        outcome = pickle.dumps((False, traceback.format_exc(), *_place(elastic, number)))
    part = folder / f"{number}.part"
    part.write_bytes(outcome)
    part.rename(folder / f"{number}.pickle")  # atomic
    return 0 if good else 1


def _place(elastic: bool, number: int) -> tuple[Any, ...]:
    """A worker's last epoch and rank; its number serves if it has joined none."""
    if not elastic:
        return ()
    place = _epochs.worker.place
    return (place.epoch, place.rank) if place else (0, number)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
