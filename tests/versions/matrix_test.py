"""The matrix of versions: its rows, its page, and what a failed job leaves in it."""

import subprocess
import sys

import pytest
from versions import matrix

TORCH = matrix.torch_row("2.11.0", "3.11")
OLD = matrix.torch_row("1.13.1", "3.11", ("torch",))
FOUND = {"python": "3.11.7", "torch": "2.11.0", "numpy": "2.4.6"}


def test_the_page_is_that_of_the_results():
    assert matrix.PAGE.read_text() == matrix.page(matrix.load())


def test_rows_have_names_of_their_own_and_results_have_rows():
    names = [row.name for row in matrix.ROWS]
    assert len(set(names)) == len(names)
    assert set(matrix.load()) <= set(names)


@pytest.mark.parametrize(
    ("row", "api", "why", "shown"),
    [
        (TORCH, "torch", {"torch": None}, "passed, 2026-01-02"),
        (TORCH, "torch", {"torch": "ImportError: no"}, "ImportError: no"),
        (TORCH, "torch", None, "not run"),
        (OLD, "distributed", {"torch": None}, "needs 2.11"),
    ],
)
def test_cells_show_what_came_of_a_job(row, api, why, shown):
    result = why and {"date": "2026-01-02", "versions": FOUND, "apis": why}
    assert matrix.cell(result, row, api) == shown


def test_an_unknown_row_is_refused():
    result = subprocess.run(
        [sys.executable, matrix.__file__, "torch-0.1"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no row is named torch-0.1" in result.stderr


def test_job_has_a_function_for_each_door():
    apis = {api for row in matrix.ROWS for api in row.apis}
    assert apis <= set(subprocess.run(
        [sys.executable, "-c", "import job; print(*job.APIS)"],
        cwd=matrix.HERE, capture_output=True, text=True, check=True,
    ).stdout.split())  # fmt: skip


def test_newest_releases_that_no_row_has_passed_with_are_named():
    results = {
        "a": {"versions": {"torch": "2.13.0+cpu", "keras": "3.15.1"}, "apis": {"torch": None}},
        "b": {"versions": {"torch": "2.14.0", "numpy": "2.4.6"}, "apis": {"torch": "an error"}},
    }
    offered = {"torch": "2.14.0", "keras": "3.15.1", "numpy": "2.4.6"}.get
    said = list(matrix.untried(results, offered))
    assert said == [
        "torch 2.14.0 is untried",
        "tensorflow-cpu: pip does not say which release is the newest",
        "numpy 2.4.6 is untried",
    ]
