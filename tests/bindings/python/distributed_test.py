"""torch.distributed over the backend `ronde`, on two and three real processes."""

import pytest
from cases import case_names

FILES = (
    "distributed_cases.py",
    "distributed_error_cases.py",
    "distributed_training_cases.py",
)


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(*FILES))
def test_distributed(case_results, case, np):
    case_results(FILES, np).check(case)
