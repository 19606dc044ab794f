"""State that belongs to one rank alone, when workers and hosts are lost."""

import re

import pytest
import ronde


def test_other_numbers_are_refused():
    with pytest.raises(ValueError, match="redundancy=2; allowed: 0, 1"):
        ronde.elastic.ObjectState(step=0, redundancy=2)
    with pytest.raises(ValueError, match="redundancy_every=0; allowed: whole numbers from 1"):
        ronde.elastic.ObjectState(step=0, redundancy=1, redundancy_every=0)


# Each rank counts its own allreduces. The sum of these counts is that of all ranks, which the state
# has as well: whatever is lost or doubled makes a difference. So do the sums of residuals.
COUNTING = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np
    import ronde
    from ronde._job.runtime import runtime

    folder, redundancy, every, victims = Path(sys.argv[1]), *eval(sys.argv[2])
    worker = int(os.environ["RONDE_WORKER"])
    ronde.init()

    class State(ronde.elastic.ArrayState):
        def on_orphans(self, orphans):
            print("orphans", [orphan["mine"] for orphan in orphans], flush=True)
            for orphan in orphans:
                self.mine += orphan["mine"]
                self.counts += orphan["counts"]

    state = State(
        counts=np.zeros(5, np.int64), mine=0, step=0, all=0, residuals=0.0,
        own=("counts", "mine"), redundancy=redundancy, redundancy_every=every,
    )

    def residuals():
        return float(sum(values.sum() for *_, values in runtime().save_residuals()))

    def leave_over(values):  # as compression does; it needs torch, which is slow to start
        for *_, before in runtime().save_residuals():
            values = values + before
        runtime().load_residuals([(0, "gradient", state.step, values)])

    def whole(value):
        return float(ronde.allreduce(np.array([value], np.float64), "whole", ronde.Sum)[0])

    def check(state):
        assert whole(state.mine) == state.all, (whole(state.mine), state.all)
        assert abs(whole(residuals()) - state.residuals) < 0.1
        assert (state.counts == state.mine).all()

    @ronde.elastic.run
    def train(state):
        if redundancy:
            check(state)
        while state.step < 16:
            leave_over(np.random.default_rng(state.step + worker).random(1000, np.float32))
            state.mine += 1
            state.counts += 1
            state.all += ronde.size()
            state.step += 1
            state.residuals = whole(residuals())
            if (state.step, worker) in victims:
                os.kill(os.getppid() if victims[state.step, worker] else os.getpid(), 9)
                time.sleep(60)
            state.commit()

    train(state)
    if redundancy:
        check(state)
    assert state.residuals > 100  # there is something to lose
    print(f"end {state.all} of {ronde.size()}", flush=True)
"""

TWO_HOSTS = "127.0.0.2:2,127.0.0.3:2"
GONE = "--on-failure", "blacklist"
RANK, HOST = 0, 1


def run(run_job, tmp_path, victims, options, redundancy=1, every=1, hosts=TWO_HOSTS):
    arguments = [tmp_path, (redundancy, every, victims)]
    status, output = run_job(COUNTING, 4, arguments, options=["-H", hosts, *options])
    assert status == 0, output
    return output


@pytest.mark.parametrize("kind", [RANK, HOST], ids=["a rank", "a host"])
def test_survivors_take_what_the_dead_had(run_job, tmp_path, kind):
    # Without its first worker the host gets no others, and its second worker leaves.
    output = run(run_job, tmp_path, {(6, 3): kind}, ["--min-np", "1", *GONE])
    orphans = re.findall(r"orphans \[(.*)\]", output)
    assert [int(one) for line in orphans for one in line.split(",")] == [5, 5], output
    assert "are lost" not in output


def test_replacements_take_what_the_dead_had(run_job, tmp_path):
    output = run(run_job, tmp_path, {(6, 2): RANK, (9, 3): RANK}, ["--min-np", "4"])
    assert "orphans" not in output
    assert output.count("end 64 of 4") == 4, output


def test_a_whole_host_is_replaced(run_job, tmp_path):
    output = run(run_job, tmp_path, {(6, 4): HOST}, ["--min-np", "4"])
    assert "orphans" not in output
    assert output.count("end 64 of 4") == 4, output


def test_hosts_are_lost_one_after_the_other(run_job, tmp_path):
    hosts = "127.0.0.2:2,127.0.0.3:1,127.0.0.4:1"
    victims = {(4, 4): HOST, (8, 3): HOST}
    output = run(run_job, tmp_path, victims, ["--min-np", "1", *GONE], hosts=hosts)
    assert sorted(re.findall(r"orphans \[(.*)\]", output))[0] == "3", output
    assert output.count("of 2") >= 2, output


def test_without_redundancy_it_is_said_what_is_lost(run_job, tmp_path):
    options = ["--min-np", "1", *GONE]
    output = run(run_job, tmp_path, {(6, 3): HOST}, options, redundancy=0)
    lost = "lost of workers 3, 4: counts, mine; redundancy=1 keeps copies"
    assert output.count(lost) == 1, output
    assert output.count("the residuals of compression on 2 of 4 ranks are lost") == 1, output


def test_one_host_cannot_keep_what_it_loses(run_job, tmp_path):
    script = """
        import numpy as np
        import ronde
        ronde.init()
        state = ronde.elastic.ObjectState(step=0, mine=0, own=["mine"], redundancy=1)

        @ronde.elastic.run
        def train(state):
            while state.step < 5:
                state.step += 1
                state.commit()
            ronde.join()

        train(state)
    """
    status, output = run_job(script, 3, options=["--min-np", "1"])
    assert status == 0, output
    assert output.count("redundancy=1: all ranks are on") == 1, output


def test_ranks_that_have_joined_do_not_stop_the_others(run_job):
    script = """
        import numpy as np
        import ronde
        ronde.init()
        state = ronde.elastic.ObjectState(step=0, mine=0, own=["mine"], redundancy=1)

        @ronde.elastic.run
        def train(state):
            while state.step < 3 + 3 * ronde.rank():
                state.step += 1
                state.commit()
            ronde.join()
            state.sync()

        train(state)
        print("end", state.step)
    """
    status, output = run_job(script, 2, options=["--min-np", "1"])
    assert status == 0, output
    assert output.count("end") == 2, output
