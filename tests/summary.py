"""Adds up test reports in JUnit format and prints `N passed, N failed[, N skipped]`.

A ctest entry that is a doctest program counts as many cases as the program says it ran; any other
entry counts once. A report that is missing counts as one failure: the suite did not get to its end.
Exit status 1 when anything failed or nothing ran.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

DOCTEST = re.compile(
    r"\[doctest\] test cases:\s+\d+ \|\s+(\d+) passed \|\s+(\d+) failed \|\s+(\d+) skipped"
)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def count_case(case: ElementTree.Element) -> tuple[int, int, int]:
    """Counts one <testcase> as (passed, failed, skipped)."""
    failed = case.find("failure") is not None or case.find("error") is not None
    inside = DOCTEST.search(ANSI.sub("", case.findtext("system-out") or ""))
    if inside:
        good, bad, _ = map(int, inside.groups())
        # A program may crash or run into its limit after its cases have passed.
        return good, max(bad, int(failed)), 0
    if failed:
        return 0, 1, 0
    return (0, 0, 1) if case.find("skipped") is not None else (1, 0, 0)


def count_report(path: Path) -> tuple[int, int, int]:
    """Counts a whole report as (passed, failed, skipped)."""
    if not path.exists():
        print(f"no report at {path}: that suite did not finish", file=sys.stderr)
        return 0, 1, 0
    counts = [count_case(case) for case in ElementTree.parse(path).iter("testcase")]
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    return passed, failed, skipped


def main(paths: list[str]) -> int:
    """Prints the sum of all reports; returns the exit status."""
    totals = [count_report(Path(path)) for path in paths]
    passed, failed, skipped = (sum(column) for column in zip(*totals)) if totals else (0, 0, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
