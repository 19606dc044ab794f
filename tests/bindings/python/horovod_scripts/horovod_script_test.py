"""Scripts written for Horovod: with another import, and unedited by `ronde run --horovod`."""

import os
import re
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


def test_modules_that_ronde_lacks_say_what_to_do(run_job):
    status, output = run_job(
        """
        import importlib, pytest, horovod.tensorflow.util

        for name, said in (
            ("horovod.spark", "ronde run"),
            ("horovod.mxnet", "NumPy"),
            ("horovod.tensorflow.data.compute_service", "tf.data service"),
            ("horovod.tensorflow.gradient_aggregation", "backward_passes_per_step"),
            ("horovod.runner.launch", "horovodrun"),
        ):
            with pytest.raises(ModuleNotFoundError, match=said):
                importlib.import_module(name)
        with pytest.raises(ModuleNotFoundError, match="No module named 'horovod.nothing'"):
            importlib.import_module("horovod.nothing")
        print("all said")
        """,
        1,
        options=["--horovod"],
    )
    assert status == 0, output
    assert "all said" in output


def test_horovods_data_loaders_read_ahead(run_job):
    status, output = run_job(
        """
        import threading
        from horovod.data import AsyncDataLoaderMixin, BaseDataLoader

        class Loader(BaseDataLoader):
            def __len__(self):
                return 5

            def _iterate(self):
                for number in range(5):
                    yield number
                if self.fails:
                    raise KeyError("at the end")

            def _process_batch(self, batch):
                return 10 * batch

        class Ahead(AsyncDataLoaderMixin, Loader):
            pass

        expected = [0, 10, 20, 30, 40]
        Loader.fails = False
        assert list(Loader()) == expected
        for most in (0, 1, 64):
            loader = Ahead(most)
            assert list(loader) == list(loader) == expected and len(loader) == 5
            next(iter(loader))  # leaves the others
            loader.close_async_loader()
            assert threading.active_count() == 1
        Loader.fails = True
        got = []
        try:
            got.extend(Ahead(2))
        except KeyError:
            print("raised")
        """,
        1,
        options=["--horovod"],
    )
    assert status == 0, output
    assert "raised" in output


ASKS = "import horovod; print(horovod.__file__, hasattr(horovod, 'run'))"


def horovodrun(*arguments, **variables):
    """The output of `horovodrun -np 2 ... python -c ASKS`: (stdout, stderr)."""
    program = [sys.executable, "-c", "from ronde._command import horovodrun; horovodrun()"]
    command = [*program, "-np", "2", *arguments, sys.executable, "-c", ASKS]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=480,
        check=True,
        env={**os.environ, **variables},
    )
    return done.stdout, done.stderr


def test_horovodrun_serves_scripts_that_import_horovod():
    out, err = horovodrun()
    assert len(re.findall(r"_horovod_alias/horovod/__init__.py True", out)) == 2, out + err
    assert "horovodrun:" not in err


def test_horovodrun_uses_horovod_itself_where_it_is_installed(tmp_path):
    package = tmp_path / "site" / "horovod"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '0.28.1'")
    installed = {"PYTHONPATH": str(package.parent)}
    out, err = horovodrun(**installed)
    assert out.count(f"{package}/__init__.py False") == 2, out + err
    assert err.count(f"imports {package}, which is installed; with --horovod it imports ronde") == 1
    out, err = horovodrun("--horovod", **installed)
    assert out.count("_horovod_alias/horovod/__init__.py True") == 2, out + err
    assert "which is installed" not in err
    (package / "__init__.py").unlink()  # a folder of this name is no package
    out, _ = horovodrun(**installed)
    assert out.count("_horovod_alias/horovod/__init__.py True") == 2


def test_without_the_flag_there_is_no_horovod():
    code = "import importlib.util as u; print(u.find_spec('horovod'))"
    printed = subprocess.run(
        [sys.executable, "-c", "import ronde.torch; " + code],
        capture_output=True,
        text=True,
        timeout=480,
        check=True,
    ).stdout
    assert printed.strip() == "None"
