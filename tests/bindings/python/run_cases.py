"""Runs every function `case_*` of some files, in order, as one rank of a job.

usage: run_cases.py FOLDER FILE...; appends [name, problem or ""] to FOLDER/<rank>.jsonl. The file
FOLDER/only may name the cases to run, one a line. At SIGUSR1 the stacks of all threads go to
FOLDER/<rank>.stacks; the process id is in FOLDER/<rank>.pid.
"""

import faulthandler
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

import ronde


def problem_of(error):
    """The error's cause comes first, then its place."""
    said = "".join(traceback.format_exception_only(type(error), error))
    return f"{said}\n{''.join(traceback.format_exception(type(error), error, error.__traceback__))}"


def run(case):
    """What went wrong in the case, or nothing."""
    try:
        case()
    except BaseException as error:
        return problem_of(error)
    return ""


def main(folder, *files):
    mine = Path(folder) / os.environ["RANK"]
    faulthandler.register(signal.SIGUSR1, mine.with_suffix(".stacks").open("w"))
    mine.with_suffix(".pid").write_text(str(os.getpid()))
    only = (Path(folder) / "only").read_text().split()
    sys.path[:0] = dict.fromkeys(str(Path(file).parent) for file in files)
    found = [pair for file in files for pair in runpy.run_path(file).items()]
    cases = [(name, case) for name, case in found if name.startswith("case_")]
    cases = [(name, case) for name, case in cases if not only or name in only]
    ronde.init()
    failed = False
    with mine.with_suffix(".jsonl").open("a") as results:
        for name, case in cases:
            problem = run(case)
            failed = failed or bool(problem)
            print(json.dumps([name, problem]), file=results, flush=True)
    ronde.shutdown()
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
