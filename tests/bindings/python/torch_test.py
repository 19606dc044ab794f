"""ronde.torch on two and three real processes."""

from pathlib import Path

import pytest

FILE = "torch_cases.py"
CASES = [
    line.split("(")[0].removeprefix("def ")
    for line in Path(__file__).with_name(FILE).read_text().splitlines()
    if line.startswith("def case_")
]


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_torch(case_results, case, np):
    case_results(FILE, np).check(case)
