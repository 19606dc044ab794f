"""ronde.torch on two and three real processes."""

import pytest
from cases import case_names

FILES = (
    "torch_cases.py",
    "torch_autograd_cases.py",
    "torch_process_set_cases.py",
    "torch_sparse_cases.py",
    "torch_optimizer_cases.py",
    "torch_gradient_cases.py",
    "torch_changing_cases.py",
    "torch_flat_cases.py",
    "torch_model_cases.py",
    "torch_error_cases.py",
    "torch_memory_cases.py",
    "torch_float8_cases.py",
    "torch_weight_cases.py",
    "torch_state_cases.py",
    "torch_first_step_cases.py",
    "torch_adasum_cases.py",
)


@pytest.mark.parametrize("np", [2, 3])
@pytest.mark.parametrize("case", case_names(*FILES))
def test_torch(case_results, case, np):
    case_results(FILES, np).check(case)
