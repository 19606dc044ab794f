"""The backend of torch.distributed is known to programs that import torch alone."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from ronde_torch_backend import _accelerate

ALONE = """
import sys, torch
import torch.distributed as dist
assert not any(name == "ronde" or name.startswith("ronde.") for name in sys.modules)
dist.init_process_group("ronde", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(3)
dist.all_reduce(x)
assert type(dist.group.WORLD).__name__ == "RondeProcessGroup"
dist.destroy_process_group()
import ronde.torch.distributed
print("ended")
"""


def test_importing_torch_suffices_and_loads_nothing_of_ronde():
    result = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=480, check=False
    )
    assert result.stdout == "ended\n", result.stderr


def fake_accelerate(kind):
    """A module accelerate.state that chooses gloo, or a GPU's backend."""

    class PartialState:
        def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
            return backend or "gloo", kind

    return SimpleNamespace(
        PartialState=PartialState, DistributedType=SimpleNamespace(MULTI_CPU="cpu")
    )


def test_accelerate_takes_the_backend_and_its_own_ones():
    state = fake_accelerate("cpu")
    _accelerate._add_backend(state)
    choose = state.PartialState()._prepare_backend
    assert choose(True, False, "ronde") == ("ronde", "cpu")
    assert choose(True, False, "mpi") == ("mpi", "cpu")
    assert choose(True) == ("gloo", "cpu")


def test_accelerate_on_a_gpu_is_told_what_to_write():
    state = fake_accelerate("gpu")
    _accelerate._add_backend(state)
    with pytest.raises(ValueError, match="Accelerator\\(cpu=True"):
        state.PartialState()._prepare_backend(False, False, "ronde")


def test_an_accelerate_without_that_method_stays_as_it_is():
    state = SimpleNamespace(PartialState=type("PartialState", (), {}))
    _accelerate._add_backend(state)
    assert not hasattr(state.PartialState, "_prepare_backend")
