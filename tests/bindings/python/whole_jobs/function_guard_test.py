"""Functions that processes call one after the other: the work of a failed one meets no other's.

RayExecutor calls functions so, and users do in notebooks.
"""

from __future__ import annotations

import pytest

CALLS = """
    import os, sys, threading, time
    import numpy as np
    import ronde
    from ronde._membership.function_guard import FunctionGuard

    guard, job = FunctionGuard(), 0

    def begin():
        global job
        guard.renew()
        job += 1
        os.environ["RONDE_JOB_ID"] = f"job{job}"

    def call(function):
        try:
            return guard.call(function)
        except BaseException as error:
            return type(error).__name__ + ": " + str(error)

    def good():
        ronde.init()
        mine = [np.array([10.0 * step + ronde.rank()]) for step in range(5)]
        return [float(ronde.allreduce(each, op=ronde.Sum)[0]) for each in mine]

    RIGHT = [1.0, 21.0, 41.0, 61.0, 81.0]
"""


def test_a_function_that_fails_on_one_rank_ends_the_job_and_the_next_one_is_exact(run_job):
    status, output = run_job(
        CALLS
        + """
    def waits():
        ronde.init()
        if ronde.rank() == 1:
            raise ValueError("bad batch")
        ronde.allreduce(np.array([1e6]), op=ronde.Sum)

    def leaves_in_flight():
        ronde.init()
        handles = [ronde.allreduce_async(np.array([1e6]), op=ronde.Sum) for _ in range(3)]
        named = ronde.allreduce_async(np.array([1e6]), name="same", op=ronde.Sum)
        if ronde.rank() == 1:
            raise KeyboardInterrupt
        handles[0].wait()
        return "ended well"

    def forgets(fails):
        ronde.init()
        if ronde.rank() == 0:
            ronde.allreduce_async(np.array([1e6]), name="same", op=ronde.Sum)
        if fails:
            raise KeyError("both")

    def times_out():
        ronde.init()
        if ronde.rank() == 0:
            ronde.allreduce_async(np.array([1e6]), op=ronde.Sum).wait(timeout=0.05)
        else:
            ronde.recv(np.ones(1), 0)

    def named():
        ronde.init()
        return float(ronde.allreduce(np.ones(1), name="same", op=ronde.Sum)[0])

    for bad in waits, leaves_in_flight, lambda: forgets(True), times_out:
        begin()
        said = call(bad)
        print("said", ronde.is_initialized(), said, flush=True)
        if said != "ended well":
            assert "ended the job" in call(good), "a call after a failure"
        begin()
        assert call(good) == RIGHT
        sum_ = call(named)
        assert sum_ == 2.0, sum_
    """,
    )
    assert status == 0, output
    assert "said False ValueError: bad batch" in output, output
    assert "said False RankFailure: rank 1" in output, output


def test_shutdown_and_init_begin_anew_after_an_exception_as_in_a_notebook(run_job):
    status, output = run_job(
        CALLS
        + """
    ronde.init()
    for cell in range(3):
        try:
            ronde.allreduce_async(np.array([1e6]), op=ronde.Sum)
            if ronde.rank() == 1:
                raise ValueError("a cell")
            ronde.allreduce(np.array([1e6]), op=ronde.Sum)
        except (ValueError, ronde.RankFailure) as error:
            print("cell", cell, type(error).__name__, flush=True)
            ronde.shutdown()
        assert good() == RIGHT
    """,
    )
    assert status == 0, output
    assert output.count("RankFailure") == 3, output


@pytest.mark.parametrize("size", [1, 3])
def test_a_function_that_succeeds_leaves_the_job_as_it_is(run_job, size):
    status, output = run_job(
        CALLS
        + """
    begin()
    assert call(lambda: ronde.init() or ronde.size()) == call(ronde.size)
    assert ronde.is_initialized()
    """,
        np=size,
    )
    assert status == 0, output
