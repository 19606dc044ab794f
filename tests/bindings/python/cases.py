"""Files of cases: functions `case_*` that every rank of one job runs, in order (run_cases.py)."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def case_names(*files):
    """The names of the cases in these files, in order."""
    return [
        name
        for file in files
        for name in re.findall(r"^def (case_\w+)\(", (HERE / file).read_text(), re.MULTILINE)
    ]
