"""Cases for errors of the NumPy collectives."""

import numpy as np
import pytest
import ronde


def case_a_mismatch_is_the_same_error_everywhere_and_the_job_goes_on():
    shape = (2, 3) if ronde.rank() == 0 else (2, 4)
    with pytest.raises(ronde.MismatchError) as caught:
        ronde.allreduce(np.ones(shape), "shapes")
    text = str(caught.value)
    assert "[2, 3]" in text
    assert "[2, 4]" in text
    assert "error_cases.py:" in text
    assert ronde.allgather_object(text) == [text] * ronde.size()
    assert ronde.allreduce(np.ones(2), "shapes", ronde.Sum).tolist() == [ronde.size()] * 2


def case_mismatched_types_and_operations_are_errors():
    with pytest.raises(ronde.MismatchError, match="float32"):
        ronde.allreduce(np.ones(2, "float32" if ronde.rank() else "float64"), "types")
    with pytest.raises(ronde.MismatchError):
        ronde.allreduce(np.ones(2), "ops", ronde.Sum if ronde.rank() else ronde.Max)
    with pytest.raises(ronde.MismatchError):
        ronde.broadcast(np.ones(2), min(ronde.rank(), 1), "roots")


def case_an_unexpected_argument_is_refused_by_the_public_name():
    with pytest.raises(TypeError, match=r"^allreduce\(\) got an unexpected .*'nme'"):
        ronde.allreduce(np.ones(2), nme="x")
    with pytest.raises(TypeError, match=r"^grouped_allreduce\(\) got an unexpected .*'nme'"):
        ronde.grouped_allreduce([np.ones(2)], nme="x")


def case_a_name_in_flight_cannot_be_used_again():
    if ronde.rank() == 0:
        first = ronde.allreduce_async(np.ones(2), "twice", ronde.Sum)
        for use in (ronde.allreduce, ronde.allreduce_async, ronde.allgather_async):
            with pytest.raises(ronde.DuplicateNameError, match=r"cases\.py:\d+ and again"):
                use(np.ones(2), "twice")
    ronde.barrier()  # the others submit it only now, so that it was in flight
    if ronde.rank() != 0:
        first = ronde.allreduce_async(np.ones(2), "twice", ronde.Sum)
    assert first.wait().tolist() == [ronde.size()] * 2, "the first goes on"
    for n in range(3000):  # names that have ended are free again, and forgotten
        ronde.allreduce(np.ones(1), f"name{n % 2000}")


def case_wrong_arguments_are_errors_before_anything_is_sent():
    bad = [
        np.ones(2, object),
        np.ones(2, ">f4"),
        np.array(["text"]),
        np.ones(2, np.longdouble),
    ]
    for array in bad:
        with pytest.raises(ronde.InvalidArgumentError, match="not supported; allowed"):
            ronde.allreduce(array)
    with pytest.raises(ronde.InvalidArgumentError, match="1024"):
        ronde.allreduce(np.ones(1), "n" * 1025)
    with pytest.raises(ronde.InvalidArgumentError):
        ronde.broadcast(np.ones(1), ronde.size())
    with pytest.raises(ronde.InvalidArgumentError):
        ronde.alltoall(np.ones(3), [1] * (ronde.size() + 1))
    with pytest.raises(ronde.InvalidArgumentError):
        ronde.allreduce(np.ones(2), op=ronde.BitOr)
    with pytest.raises(ronde.InvalidArgumentError, match="no tensors"):
        ronde.grouped_allreduce([])
    ronde.barrier()


def case_a_wait_ends_at_its_timeout_and_can_be_taken_up_again():
    if ronde.rank() == 0:
        handle = ronde.allreduce_async(np.ones(3), "late", ronde.Sum)
        with pytest.raises(TimeoutError):
            handle.wait(timeout=0.05)
        ronde.send(np.zeros(1, np.uint8), 1, tag=7)
        assert handle.wait().tolist() == [ronde.size()] * 3
        return
    if ronde.rank() == 1:
        ronde.recv(np.zeros(1, np.uint8), 0, tag=7)
    ronde.allreduce(np.ones(3), "late", ronde.Sum)
