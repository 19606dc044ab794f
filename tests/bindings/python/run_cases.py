"""Runs every function `case_*` of some files, in order, as one rank of a job.

usage: run_cases.py FOLDER FILE...; appends [name, traceback or ""] to FOLDER/<rank>.jsonl.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path

import ronde


def main(folder, *files):
    found = [pair for file in files for pair in runpy.run_path(file).items()]
    cases = [(name, case) for name, case in found if name.startswith("case_")]
    ronde.init()
    failed = False
    with (Path(folder) / f"{ronde.rank()}.jsonl").open("a") as results:
        for name, case in cases:
            problem = ""
            try:
                case()
            except BaseException:
                problem = traceback.format_exc()
                failed = True
            print(json.dumps([name, problem]), file=results, flush=True)
    ronde.shutdown()
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
