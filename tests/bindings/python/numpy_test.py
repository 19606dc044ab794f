"""The NumPy collectives on two and three real processes."""

import pytest
from cases import case_names

FILE = "numpy_cases.py"


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(FILE))
def test_numpy(case_results, case, np):
    case_results((FILE,), np).check(case)
