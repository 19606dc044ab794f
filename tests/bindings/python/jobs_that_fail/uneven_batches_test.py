"""Ranks with fewer batches than the others: the commonest mistake has an error with its remedy."""

from __future__ import annotations

import re

import pytest

TORCH = """
    import torch, ronde.torch as hvd

    hvd.init()
    model = torch.nn.Linear(4, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
    for step in range(6 - hvd.rank()):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
"""
NUMPY = """
    import numpy as np, ronde

    ronde.init()
    for step in range(6 - ronde.rank()):
        ronde.allreduce(np.ones(4), name={name})
"""
FEWER = "rank 1 probably has fewer batches than the others (uneven data, or an early stop)"


def errors(output, kind):
    """The errors of that kind, by rank."""
    found = re.findall(rf"\[(\d)\] (?:ronde\.)?{kind}: (.*)", output)
    return {int(rank): text for rank, text in found}


@pytest.mark.parametrize(
    ("script", "operation"),
    [
        (TORCH, r'allreduce "[^"]+" \(.*script\.py:6\)'),
        (NUMPY.format(name="'loss'"), r'allreduce "loss" \(.*script\.py:6\)'),
        (NUMPY.format(name="None"), r"allreduce \(.*script\.py:6\)"),
        (NUMPY.format(name="'loss'") + "    ronde.shutdown()\n", r'allreduce "loss" \(.*:6\)'),
    ],
    ids=["torch", "numpy", "unnamed", "shutdown"],
)
def test_a_rank_that_ends_early_is_told_what_waits_for_it_and_what_to_do(
    run_job, script, operation
):
    status, output = run_job(script, np=2)
    assert status != 0, output
    text = errors(output, "RankFailure")[0]
    left = r"rank 1 has left the job \(pid \d+ on \S+\); "
    assert re.match(left + operation + " waits for it: " + re.escape(FEWER), text), output
    assert "join()" in text


@pytest.mark.parametrize(
    ("script", "last"),
    [
        (TORCH, 'hvd.allreduce(torch.ones(1), name="accuracy")'),
        (NUMPY.format(name="'loss'"), 'ronde.allreduce(np.ones(1), name="accuracy")'),
        (NUMPY.format(name="'loss'"), "ronde.barrier()"),
        (NUMPY.format(name="'loss'"), "ronde.broadcast_object({1: 2}, 0)"),
        (NUMPY.format(name="None"), 'ronde.allgather(np.ones(1), name="accuracy")'),
        (NUMPY.format(name="None"), "ronde.barrier()"),
    ],
    ids=["torch", "numpy", "barrier", "object", "unnamed", "all unnamed"],
)
def test_a_rank_that_goes_on_to_another_operation_is_no_case_for_one_name(run_job, script, last):
    status, output = run_job(script + f"    {last}\n", np=2)
    assert status != 0, output
    text = errors(output, "MismatchError")[0]
    assert FEWER in text, output
    assert "the same name" not in text


def test_a_rank_that_leaves_in_order_is_what_the_post_mortem_names(run_job, tmp_path):
    script = """
        import numpy as np, ronde, sys, time

        ronde.init()
        ronde.allreduce(np.ones(3), name="both")
        if ronde.rank() == 1:
            time.sleep(0.3)
            sys.exit(3)
        try:
            ronde.allreduce(np.ones(3), name="lonely")
        except ronde.RankFailure:
            pass
    """
    _, output = run_job(script, np=2)
    assert 'just failed: "lonely" (allreduce, 24 bytes)' in output
    assert "rank 1 left the job and never submitted it" in output, output
