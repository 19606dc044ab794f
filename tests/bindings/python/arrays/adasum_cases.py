"""Cases for Adasum of NumPy arrays."""

import numpy as np
import pytest
import ronde


def adasum_of(arrays):
    """The formula in float64: neighbours first, a rank without one goes up as it is."""
    arrays = [array.astype(np.float64) for array in arrays]
    while len(arrays) > 1:
        arrays = [
            adasum_of_two(*arrays[i : i + 2]) if i + 1 < len(arrays) else arrays[i]
            for i in range(0, len(arrays), 2)
        ]
    return arrays[0]


def adasum_of_two(a, b):
    ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - ab / (2 * aa)) * a + (1 - ab / (2 * bb)) * b


def case_adasum_is_within_one_ulp_of_its_formula():
    for count in (1, 7, 1000):
        drawn = [np.random.default_rng(k).random(count) + 0.5 for k in range(ronde.size())]
        for dtype in (np.float16, np.float32):
            arrays = [array.astype(dtype) for array in drawn]
            got = ronde.allreduce(arrays[ronde.rank()], op=ronde.Adasum)
            wanted = adasum_of(arrays)
            ulp = np.spacing(np.abs(wanted).astype(dtype)).astype(np.float64)
            assert (np.abs(got - wanted) <= ulp).all()
        got = ronde.allreduce(drawn[ronde.rank()], op=ronde.Adasum)
        np.testing.assert_allclose(got, adasum_of(drawn), rtol=1e-13)


def case_adasum_of_a_group_treats_each_array_alone():
    ranks = range(ronde.size())
    groups = [[np.full(3, k + 1, np.float32), np.eye(4, dtype=np.float32)[k]] for k in ranks]
    got = ronde.grouped_allreduce(groups[ronde.rank()], op=ronde.Adasum)
    for index in range(2):
        wanted = adasum_of([group[index] for group in groups])
        np.testing.assert_allclose(got[index], wanted, rtol=1e-6)


def case_adasum_is_refused_for_other_types_and_collectives():
    with pytest.raises(ronde.InvalidArgumentError, match="float16, bfloat16, float32 and float64"):
        ronde.allreduce(np.ones(3, np.int32), op=ronde.Adasum)
    with pytest.raises(ronde.InvalidArgumentError, match="not defined for reduce_scatter"):
        ronde.reduce_scatter(np.ones(4, np.float32), op=ronde.Adasum)
