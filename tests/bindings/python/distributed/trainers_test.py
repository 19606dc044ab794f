"""Accelerate and Lightning over the backend `ronde`, where they are installed."""

import importlib.util

import pytest


def needs(name):
    missing = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(missing, reason=f"{name} is not installed; nothing else needs it")


ACCELERATE = """
    import sys
    import torch
    import torch.distributed as dist
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        kwargs_handlers=[InitProcessGroupKwargs(backend="ronde")],
    )
    size = accelerator.num_processes
    torch.manual_seed(0)
    rows = torch.randn(21, 4)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, rows.sum(1)), 4)
    model = torch.nn.Linear(4, 1)
    model, optimizer, data = accelerator.prepare(
        model, torch.optim.Adam(model.parameters(), 0.05), data
    )
    for x, y in data:
        with accelerator.accumulate(model):
            accelerator.backward((model(x).squeeze(1) - y).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()
    assert sum(len(accelerator.gather_for_metrics(y)) for _, y in data) == len(rows)
    accelerator.save_state(sys.argv[1])
    before = model.module.weight.detach().clone()
    with torch.no_grad():
        model.module.weight.zero_()
    accelerator.wait_for_everyone()
    accelerator.load_state(sys.argv[1])
    assert torch.equal(model.module.weight, before)
    assert torch.equal(*accelerator.gather(before))
    assert dist.get_backend() == "ronde"
    accelerator.end_training()
    print("trained", size)
"""

LIGHTNING = """
    import os
    import signal
    import sys
    import torch
    import torch.distributed as dist
    import ronde.torch.distributed
    import lightning
    from lightning.pytorch.strategies import DDPStrategy


    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            if self.trainer.max_epochs == 2 and self.global_rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = (self.layer(batch[0]).squeeze(1) - batch[0].sum(1)).pow(2).mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.05)


    def fit(epochs, checkpoint=None):
        trainer = lightning.Trainer(
            accelerator="cpu", devices=2, max_epochs=epochs, enable_progress_bar=False,
            strategy=DDPStrategy(process_group_backend="ronde"), logger=False,
            enable_checkpointing=False, default_root_dir=sys.argv[1],
        )
        model = Model()
        rows = torch.utils.data.TensorDataset(torch.randn(24, 4))
        trainer.fit(model, torch.utils.data.DataLoader(rows, 4), ckpt_path=checkpoint)
        assert dist.get_backend() == "ronde"
        gathered = trainer.strategy.all_gather(model.layer.weight.detach())
        assert torch.equal(gathered[0], gathered[1])
        trainer.save_checkpoint(sys.argv[1] + "/model.ckpt")


    fit(1)
    print("trained", dist.get_world_size(), flush=True)
    try:
        fit(2, sys.argv[1] + "/model.ckpt")
    except RuntimeError as error:
        print(type(error).__name__, error)
"""


@needs("accelerate")
def test_accelerate_trains_gathers_and_loads_by_its_usual_setting(run_job, tmp_path):
    status, output = run_job(ACCELERATE, arguments=[tmp_path / "state"])
    assert status == 0, output
    assert output.count("trained 2") == 2, output


@needs("lightning")
def test_lightning_trains_by_its_usual_setting_and_hears_of_a_killed_rank(run_job, tmp_path):
    status, output = run_job(LIGHTNING, arguments=[tmp_path])
    assert status == 128 + 9, output
    assert output.count("trained 2") == 2, output
    assert "RankFailure rank 1" in output, output
