"""Residuals of compression stay with ranks that go on to another epoch."""

import pytest

pytest.importorskip("torch")

TRAINING = """
    import os, signal, sys
    import torch
    import ronde.torch as hvd
    from ronde._membership import epochs
    from ronde.elastic import HorovodInternalError, ObjectState

    kind = sys.argv[1]
    hvd.init()
    state = ObjectState(step=0)
    before = {}
    if epochs.place().epoch == 1:
        gone, pair = hvd.add_process_set([0, 1]), hvd.add_process_set([0, 2])
        hvd.remove_process_set(gone)  # the other set gets its number in the next epoch
    else:
        pair = None

    def residuals():
        found = hvd.Compression.state_dict()["residuals"]
        return {(number > 0, name): value for (number, name), value in found.items()}

    def check():
        after = residuals()
        assert before.keys() == after.keys() != set(), (before.keys(), after.keys())
        for key, (steps, values) in before.items():
            assert after[key][0] == steps
            assert torch.equal(after[key][1], values)
            assert values.abs().sum() > 0
        print("kept", len(after), "in", hvd.size(), flush=True)

    state.register_reset_callbacks([check])

    def add_up():
        torch.manual_seed(state.step * 10 + hvd.rank())
        matrix = torch.randn(100, 80)
        hvd.allreduce(matrix, name="g", compression=hvd.Compression.int4)
        if pair is not None and pair.included():
            hvd.allreduce(
                matrix, name="g", compression=hvd.Compression.int4, process_set=pair
            )
        before.clear()
        before.update(residuals())
        hvd.allreduce(torch.ones(1), name="done")

    @hvd.elastic.run
    def train(state):
        while state.step < 6:
            add_up()
            if state.step == 3 and epochs.place().epoch == 1:
                if kind == "failure":
                    raise HorovodInternalError("planted")
                if hvd.rank() == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            hvd.allreduce(torch.ones(3), name="plain")
            state.step += 1
            state.commit()

    train(state)
"""


def test_a_change_of_epochs_without_a_death_keeps_residuals(run_job):
    status, output = run_job(TRAINING, 3, ["failure"], options=["--min-np", "3"])
    assert status == 0, output
    assert output.count("kept 2 in 3") == 2, output  # ranks 0 and 2 are in the process set
    assert output.count("kept 1 in 3") == 1, output
    assert "are lost with them" not in output


def test_survivors_keep_residuals_and_say_what_is_lost(run_job):
    options = ["--min-np", "2"]
    status, output = run_job(TRAINING, 3, ["death"], options=options)
    assert status == 0, output
    assert output.count("kept 2 in 2") == 2, output
    assert output.count("residuals of compression on 1 of 3 ranks are lost with them") == 1, output
