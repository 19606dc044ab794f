"""The NumPy collectives on two and three real processes."""

import pytest
from cases import case_names

FILES = (
    "numpy_cases.py",
    "numpy_adasum_cases.py",
    "numpy_error_cases.py",
    "wrong_call_cases.py",
    "numpy_memory_cases.py",
    "numpy_dtype_cases.py",
    "numpy_compression_cases.py",
)


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(*FILES))
def test_numpy(case_results, case, np):
    case_results(FILES, np).check(case)
