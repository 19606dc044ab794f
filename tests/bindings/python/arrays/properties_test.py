"""Arguments that may be wrong, made up by hypothesis: a typed error, or a right result.

Never a crash, a hang, or a result of something else than was asked for.
"""

import numpy as np
import pytest
import ronde
from hypothesis import given, settings
from hypothesis import strategies as st

FEW = settings(deadline=None, max_examples=50)
INTEGERS = st.integers(-(2**70), 2**70)
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@pytest.fixture(scope="module", autouse=True)
def job():
    ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
    yield
    ronde.shutdown()


@given(root=INTEGERS)
@FEW
def test_a_root_is_a_rank_of_the_set_or_an_error(root):
    array = np.arange(3.0)
    for call in (ronde.broadcast, ronde.reduce):
        if root == 0:
            np.testing.assert_array_equal(call(array, root), array)
            continue
        with pytest.raises((ronde.Error, TypeError, OverflowError)):
            call(array, root)


@given(splits=st.lists(st.integers(-3, 9), max_size=4), rows=st.integers(0, 6))
@FEW
def test_splits_are_the_rows_of_the_tensor_or_an_error(splits, rows):
    array = np.arange(rows * 2.0).reshape(rows, 2)
    if splits == [rows]:
        received, counts = ronde.alltoall(array, splits)
        np.testing.assert_array_equal(received, array)
        assert counts == [rows]
        return
    if not splits:  # left out: evenly
        return
    with pytest.raises((ronde.Error, TypeError)):
        ronde.alltoall(array, splits)


@given(value=FLOATS, scale=st.floats(-1e6, 1e6, width=32))
@FEW
def test_scales_multiply_and_keep_nan_and_infinity(value, scale):
    with np.errstate(all="ignore"):
        wanted = np.float64(value) * np.float64(scale)
    array = np.array([value], np.float64)
    for factor in ("prescale_factor", "postscale_factor"):
        result = ronde.allreduce(array, op=ronde.Sum, **{factor: scale})
        np.testing.assert_allclose(result, [wanted], rtol=1e-12)


@given(scale=st.sampled_from([float("nan"), float("inf"), "2", None, 1j]))
@FEW
def test_a_scale_that_is_no_number_is_an_error_or_gives_no_number(scale):
    try:
        result = ronde.allreduce(np.ones(2), op=ronde.Sum, prescale_factor=scale)
    except (ronde.Error, TypeError):
        return
    assert not np.isfinite(result).any()


@given(op=INTEGERS)
@FEW
def test_an_operation_is_known_or_an_error(op):
    known = {ronde.Average, ronde.Sum, ronde.Min, ronde.Max, ronde.Product}
    if op in known:
        np.testing.assert_array_equal(ronde.allreduce(np.ones(2), op=op), np.ones(2))
        return
    with pytest.raises((ronde.Error, TypeError, ValueError, OverflowError)):
        ronde.allreduce(np.ones(2), op=op)


@given(ranks=st.lists(st.integers(-2, 3), max_size=4))
@FEW
def test_a_process_set_has_ranks_of_the_job_or_is_an_error(ranks):
    with pytest.raises((ronde.Error, ValueError)):
        ronde.add_process_set(ranks)  # [0] exists: it is the set of all ranks
