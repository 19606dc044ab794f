"""Restarts by torchrun: tests/bindings/python/restarts.py does the same 100 times."""

import pytest
import restarts

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)


@pytest.mark.parametrize(("api", "first_fault"), [("torch", 2), ("horovod", 5)])
def test_each_restart_is_a_job_of_its_own(api, first_fault):
    worked, status, output = restarts.run(3, 2, api, first_fault, limit_s=90)
    assert status == 0, output
    assert worked == 3, output
    assert output.count("of 2 done") == 2, output
