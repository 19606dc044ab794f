"""One rank of ronde.run(): calls the function and writes its result.

usage: python -m ronde._run_rank FOLDER
"""

from __future__ import annotations

import pickle
import sys
import traceback
from pathlib import Path

from ronde import _core
from ronde._run import CALL, pickler


def main(folder: Path) -> int:
    """Writes (True, result) or (False, traceback) to FOLDER/<rank>.pickle; returns the status."""
    rank = _core.launched_job()[0]
    good = True
    try:
        func, args, kwargs = pickle.loads((folder / CALL).read_bytes())
        outcome = bytes(pickler().dumps((True, func(*args, **kwargs))))
    except BaseException:
        good = False
        outcome = pickle.dumps((False, traceback.format_exc()))
    part = folder / f"{rank}.part"
    part.write_bytes(outcome)
    part.rename(folder / f"{rank}.pickle")  # atomic
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
