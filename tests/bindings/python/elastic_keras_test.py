"""States and callbacks of ronde.keras.elastic and ronde.tensorflow.elastic, on two ranks."""

import pytest
from cases import case_names

pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")

CASES = ("elastic_keras_cases.py",)


@pytest.fixture(autouse=True, scope="module")
def quiet():
    """Ranks without TensorFlow's remarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
        yield


@pytest.mark.parametrize("case", case_names(*CASES))
def test_keras(case_results, case):
    case_results(CASES, 2).check(case)
