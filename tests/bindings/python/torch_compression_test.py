"""Compression in ronde.torch and as a DDP hook, on two and three real processes."""

import pytest
from cases import case_names

FILES = (
    "torch_compression_cases.py",
    "torch_rules_cases.py",
    "torch_onebit_adam_cases.py",
    "ddp_compression_cases.py",
)


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(*FILES))
def test_compression(case_results, case, np):
    case_results(FILES, np).check(case)
