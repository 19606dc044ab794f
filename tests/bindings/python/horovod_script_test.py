"""Scripts written for Horovod: with another import, and unedited by `ronde run --horovod`."""

import subprocess
import sys

import pytest

HOROVOD_SCRIPT = """
    import torch
    import torch.nn.functional as F
    import {module} as hvd

    hvd.init()
    torch.manual_seed(42)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer,
                                         named_parameters=model.named_parameters(),
                                         compression=hvd.Compression.none, op=hvd.Average)

    def metric_average(val, name):
        tensor = torch.tensor(val)
        avg_tensor = hvd.allreduce(tensor, name=name)
        return avg_tensor.item()

    sampler = torch.utils.data.distributed.DistributedSampler(
        range(64), num_replicas=hvd.size(), rank=hvd.rank())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in torch.utils.data.DataLoader(list(range(64)), batch_size=8, sampler=sampler):
            data = torch.stack([batch / 64, batch % 2, batch * 0 + 1.0, batch / 32], dim=1)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), batch % 2)
            loss.backward()
            optimizer.step()
        loss = metric_average(loss.item(), 'avg_loss')
        if hvd.rank() == 0:
            print(f'epoch {{epoch}} loss {{loss:.4f}} size {{hvd.size()}}')
"""


@pytest.mark.parametrize("np", [1, 2])
def test_a_horovod_script_runs_after_changing_its_import(run_job, np):
    status, output = run_job(HOROVOD_SCRIPT.format(module="ronde.torch"), np)
    assert status == 0, output
    assert f"size {np}" in output
    assert "epoch 1" in output


def test_a_horovod_script_runs_unedited(run_job):
    status, output = run_job(
        HOROVOD_SCRIPT.format(module="horovod.torch"), 2, options=["--horovod"]
    )
    assert status == 0, output
    assert "size 2" in output
    assert "epoch 1" in output


def test_what_scripts_import_of_horovod_is_there(run_job):
    status, output = run_job(
        """
        import horovod, horovod.torch as hvd, ronde.torch
        import horovod.torch.mpi_ops
        from horovod.common.exceptions import HorovodInternalError
        from horovod.common.process_sets import ProcessSet
        from horovod.common.util import _cache, env, extension_available, gloo_built, mpi_built
        from horovod.common.util import num_rank_is_power_2, split_list
        from horovod.runner import run
        from horovod.runner.util.threads import in_thread
        from horovod.torch.compression import Compression
        from horovod.torch.functions import broadcast_object
        from horovod.torch.mpi_ops import allreduce_async_, poll, rank, size, synchronize
        from horovod.torch.optimizer import DistributedOptimizer
        from horovod.torch.sync_batch_norm import SyncBatchNorm

        assert hvd is ronde.torch and horovod.torch is hvd
        assert horovod.torch.mpi_ops is hvd.mpi_ops is ronde.torch.mpi_ops
        assert (Compression, SyncBatchNorm) == (hvd.Compression, hvd.SyncBatchNorm)
        assert tuple(map(int, horovod.__version__.split("."))) >= (0, 28)
        assert horovod.run is run
        with env(SOME_VARIABLE="1"):
            import os
            assert os.environ["SOME_VARIABLE"] == "1"
        assert "SOME_VARIABLE" not in os.environ
        assert extension_available("torch") and not extension_available("mxnet")
        assert split_list([1, 2, 3, 4, 5], 2) == [[1, 2, 3], [4, 5]]
        assert num_rank_is_power_2(4) and not num_rank_is_power_2(6)
        done = []
        in_thread(done.append, (1,)).join()
        assert done == [1]
        from horovod.common import elastic, exceptions
        from horovod.torch.elastic.state import TorchState
        assert elastic.ObjectState in TorchState.__mro__
        assert exceptions.HorovodInternalError is hvd.HorovodInternalError
        hvd.init()
        print("size", size())
        """,
        1,
        options=["--horovod"],
    )
    assert status == 0, output
    assert "size 1" in output


def test_without_the_flag_there_is_no_horovod():
    code = "import importlib.util as u; print(u.find_spec('horovod'))"
    printed = subprocess.run(
        [sys.executable, "-c", "import ronde.torch; " + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert printed.strip() == "None"
