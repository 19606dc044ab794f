"""Elastic jobs of real processes: workers are killed, leave and join while they train."""

import os
import re
import time

import pytest
import ronde

# Counts how often each sample is committed. The counts are part of the state: they go back with it.
COUNTING = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np
    import ronde

    victims, samples, epochs, batch = eval(sys.argv[1]), 61, 3, 4
    folder = Path(sys.argv[2])
    ronde.init()
    sampler = ronde.elastic.ExactSampler(samples, seed=1)
    state = ronde.elastic.ArrayState(
        counts=np.zeros(samples, np.int64), weights=np.zeros(1000), sampler=sampler, step=0
    )
    if len(sys.argv) > 3:
        state.checkpoint(folder / "state", every=2)

    def once(name):
        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @ronde.elastic.run
    def train(state):
        while sampler.epoch < epochs:
            own = list(sampler)
            for number, begin in enumerate(range(0, len(own), batch)):
                for step, rank, kind in victims:
                    if (step, rank) == (state.step, ronde.rank()) and once(f"{kind}{step}"):
                        os.kill(os.getpid(), getattr(signal, kind))
                seen = np.zeros(samples, np.int64)
                seen[own[begin : begin + batch]] += 1
                state.counts += ronde.allreduce(seen, "counts", ronde.Sum)
                state.weights += ronde.allreduce(np.ones(1000), "weights", ronde.Max)
                state.step += 1
                sampler.record_batch(number, batch)
                state.commit()
                time.sleep(0.01)
            ronde.join()
            state.sync()
            sampler.set_epoch(sampler.epoch + 1)
        return ronde.size()

    size = train(state)
    assert (state.weights == state.step).all()
    print("counts", sorted(set(state.counts.tolist())), "size", size, flush=True)
"""


def ends_of(output):
    """(counts of the samples, size of the job) as each worker printed them at its end."""
    found = re.findall(r"counts (\[.*?\]) size (\d+)", output)
    return [(counts, int(size)) for counts, size in found]


@pytest.mark.parametrize(
    "victims",
    [
        [(3, 1, "SIGKILL")],
        [(3, 0, "SIGKILL")],
        [(2, 0, "SIGKILL"), (2, 2, "SIGKILL"), (7, 1, "SIGKILL")],
    ],
    ids=["a rank", "rank 0", "three ranks"],
)
def test_each_sample_is_committed_once_though_ranks_are_killed(run_job, tmp_path, victims):
    status, output = run_job(COUNTING, 3, [victims, tmp_path], options=["--min-np", "1"])
    assert status == 0, output
    ends = ends_of(output)
    assert ends, output
    assert all(counts == "[3]" for counts, _ in ends), output
    assert output.count("was killed by signal 9") >= len(victims)


def test_workers_that_have_joined_take_part(run_job, tmp_path):
    status, output = run_job(
        COUNTING, 3, [[(2, 2, "SIGKILL")], tmp_path], options=["--min-np", "3"]
    )
    assert status == 0, output
    assert ends_of(output) == [("[3]", 3)] * 3, output


def test_a_worker_that_is_asked_to_leave_loses_nothing(run_job, tmp_path):
    status, output = run_job(
        COUNTING, 3, [[(3, 1, "SIGTERM")], tmp_path], options=["--min-np", "1"]
    )
    assert status == 0, output
    assert ends_of(output) == [("[3]", 2)] * 2, output
    assert "Traceback" not in output


def test_a_checkpoint_is_resumed_with_another_number_of_ranks(run_job, tmp_path):
    victims = [(5, rank, "SIGKILL") for rank in (0,)]
    options = ["--min-np", "2", "--reset-limit", "0"]
    status, output = run_job(COUNTING, 2, [victims, tmp_path, "file"], options=options)
    assert status not in (0, None), output
    assert list(tmp_path.glob("state.*.ronde"))
    status, output = run_job(COUNTING, 3, [[], tmp_path, "file"], options=["--min-np", "1"])
    assert status == 0, output
    assert ends_of(output) == [("[3]", 3)] * 3, output


# Worker 2 is killed when it has its place in the first epoch, before it connects.
KILLED_IN_INIT = """
    import os, signal, time
    import numpy as np
    import ronde
    from ronde._membership import epochs
    from ronde._membership import joining

    times, next_place, join = [], epochs.next_place, joining._join

    def timed_place():
        place = next_place()
        times.append(time.monotonic())
        return place

    def deadly_join(settings):
        if os.environ["RONDE_WORKER"] == "2":
            os.kill(os.getpid(), signal.SIGKILL)
        join(settings)

    epochs.next_place, joining._join = timed_place, deadly_join
    ronde.init()
    waited = time.monotonic() - times[0]
    assert len(times) == 2 or os.environ["RONDE_WORKER"] == "4", times
    assert ronde.allreduce(np.ones(3), "sum", ronde.Sum)[0] == ronde.size()
    print(f"waited {waited:.3f} s", flush=True)
"""


@pytest.mark.parametrize("hosts", [(), ("-H", "127.0.0.2:1,127.0.0.3:1,127.0.0.4:1")])
def test_a_death_inside_init_does_not_hold_up_the_others(run_job, hosts):
    status, output = run_job(KILLED_IN_INIT, 3, options=["--min-np", "2", *hosts])
    assert status == 0, output
    waits = [float(seconds) for seconds in re.findall(r"waited ([\d.]+) s", output)]
    assert len(waits) >= 2, output
    assert max(waits) < 2, output


# Rank 1 dies at step 5. All that hold the state die when the sync with its replacement begins.
LOST_IN_SYNC = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np
    import ronde
    import ronde.elastic

    folder, np_ = Path(sys.argv[1]), int(sys.argv[2])
    ronde.init()

    def die(name):
        (folder / f"{name}{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    class State(ronde.elastic.ArrayState):
        def sync(self):
            seconds = len(list(folder.glob("second*")))
            if ronde.size() == np_ and self.step >= 5 and seconds < np_ - 1:
                die("second")
            super().sync()

        def _shared_copies(self):  # sync() is none of those that save more
            return self._copies

    state = State(step=0, big=np.zeros(1 << 20))

    @ronde.elastic.run
    def train(state):
        print(f"goes on at {state.step} of {state.big[0]}", flush=True)
        while state.step < 10 or ronde.size() < np_:
            state.big += ronde.allreduce(np.ones(1 << 20), name="g")
            state.step += 1
            if state.step == 5 and ronde.rank() == 1 and not list(folder.glob("first*")):
                state.commit()
                die("first")
            state.commit()

    train(state)
    assert (state.big == state.step).all()
    print("end", flush=True)
"""


@pytest.mark.parametrize("np", [2, 3])
def test_the_last_commit_outlives_all_holders_in_a_newcomers_sync(run_job, tmp_path, np):
    status, output = run_job(LOST_IN_SYNC, np, [tmp_path, np], options=["--min-np", "1"])
    assert status == 0, output
    assert output.count("was killed by signal 9") >= np, output
    assert len(list(tmp_path.glob("second*"))) == np - 1, output
    starts = [int(step) for step in re.findall(r"goes on at (\d+)", output)]
    assert starts.count(0) == np, output  # nobody began from scratch again


EARLY_END = """
    import os, sys
    import numpy as np
    import ronde, ronde.elastic

    ronde.init()
    state = ronde.elastic.ArrayState(step=0)

    @ronde.elastic.run
    def train(state):
        while state.step < 40:
            ronde.allreduce(np.ones(4), name="g")
            state.step += 1
            state.commit()
            if state.step == 5 and ronde.rank() in eval(sys.argv[2]):
                getattr(os if sys.argv[1] == "_exit" else sys, sys.argv[1])(0)

    train(state)
"""


@pytest.mark.parametrize(
    ("how", "ranks", "expected"),
    [("_exit", [1], 1), ("exit", [1], 1), ("_exit", [0, 1], 1), ("exit", [0, 1, 2], 0)],
)
def test_a_job_succeeds_only_if_nobody_fails(run_job, how, ranks, expected):
    status, output = run_job(EARLY_END, 3, [how, ranks], options=["--min-np", "2"])
    assert status == expected, output
    early = "exited with status 0 before the others of its epoch had finished"
    assert (early in output) == (expected == 1), output


TORCH = """
    import os, signal, sys
    from pathlib import Path
    import torch
    import HVD.torch as hvd

    mark = Path(sys.argv[1])
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    inputs = torch.arange(240.0).reshape(60, 4) / 240
    sampler = hvd.elastic.ElasticSampler(range(60), shuffle=False)

    def on_state_reset():
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * hvd.size()

    @hvd.elastic.run
    def train(state):
        state.rounds += 1
        for state.epoch in range(state.epoch, 3):
            loader = torch.utils.data.DataLoader(range(60), batch_size=5, sampler=state.sampler)
            for number, batch in enumerate(loader):
                optimizer.zero_grad()
                loss = model(inputs[batch]).square().mean()
                loss.backward()
                if state.epoch == 1 and hvd.rank() == 1 and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.step()
                state.sampler.record_batch(number, 5)
                state.commit()
            state.sampler.set_epoch(state.epoch + 1)

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, rounds=0)
    state.register_reset_callbacks([on_state_reset])
    train(state)
    total = sum(p.double().sum() for p in model.parameters()).item()
    lr = optimizer.param_groups[0]["lr"]
    assert abs(lr - 0.01 * hvd.size()) < 1e-9, lr
    assert os.environ["HOROVOD_RANK"] == os.environ["RANK"] == str(hvd.rank())
    print(f"end {total!r} rounds {state.rounds}", flush=True)
"""


@pytest.mark.parametrize("alias", [False, True], ids=["ronde", "horovod"])
def test_torch_trains_on_after_a_kill(run_job, tmp_path, alias):
    script = TORCH.replace("HVD", "horovod" if alias else "ronde")
    options = ["--min-np", "1", *(["--horovod"] if alias else [])]
    status, output = run_job(script, 3, [tmp_path / "killed"], options=options)
    assert status == 0, output
    ends = set(re.findall(r"end \S+ rounds \d+", output))
    assert len(ends) == 1, output
    assert int(ends.pop().split()[-1]) >= 2


def test_a_job_of_one_rank_grows(run_job, tmp_path):
    script = """
        import sys, time
        from pathlib import Path
        import torch
        import ronde.torch as hvd

        hosts = Path(sys.argv[1])
        hvd.init()
        model = torch.nn.Linear(2, 1, bias=False)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

        @hvd.elastic.run
        def train(state):
            while state.step < 5000 and not (hvd.size() == 2 and state.together > 3):
                if state.step == 0:
                    hosts.with_name("new").write_text("localhost slots=2\\n")
                    hosts.with_name("new").rename(hosts)  # the launcher never reads half a file
                optimizer.zero_grad()
                (model(torch.full((1, 2), 1.0 + hvd.rank())).sum()).backward()
                optimizer.step()
                expected = 1.0 + (hvd.size() - 1) / 2
                assert model.weight.grad[0, 0] == expected, model.weight.grad
                state.together += hvd.size() == 2
                state.step += 1
                state.commit()
                time.sleep(0.02)

        state = hvd.elastic.TorchState(model, optimizer, step=0, together=0)
        train(state)
        print("together", state.together, flush=True)
    """
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    options = ["--min-np", "1", "--max-np", "2", "--hostfile", str(hosts)]
    status, output = run_job(script, 1, [hosts], options=options)
    assert status == 0, output
    assert len(re.findall(r"together [1-9]", output)) == 2, output


SETS = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np
    import ronde

    mark = Path(sys.argv[1])
    ronde.init(process_sets=[low := ronde.ProcessSet([0, 1]), high := ronde.ProcessSet([1, 2])])

    @ronde.elastic.run
    def train(state):
        while state.step < 60:
            if state.step == 3 and ronde.rank() == 0 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if state.step < 3 and low.included():
                assert ronde.allreduce(np.ones(2), "low", ronde.Sum, process_set=low)[0] == 2
            if high.included():
                assert ronde.allreduce(np.ones(2), "high", ronde.Sum, process_set=high)[0] == 2
            ronde.allreduce(np.ones(2), "all")
            state.step += 1
            state.commit()
            time.sleep(0.01)

    train(ronde.elastic.ObjectState(step=0))
    try:
        ronde.allreduce(np.ones(2), "low", process_set=low)
    except ValueError as error:
        print("high", high.ranks, "low", error, flush=True)
"""


def test_process_sets_whose_members_live_go_on(run_job, tmp_path):
    options = ["--min-np", "2", "--on-failure", "blacklist", "-H", "127.0.0.2:1,127.0.0.3:2"]
    status, output = run_job(SETS, 3, [tmp_path / "killed"], options=options)
    assert status == 0, output
    assert len(re.findall(r"high \[0, 1\] low .*made of the workers 1, 2", output)) == 2, output


def finished_size():
    ronde.init()
    state = ronde.elastic.ObjectState(step=0)

    @ronde.elastic.run
    def train(state):
        while state.step < 5:
            state.step += 1
            state.commit()
        return ronde.rank(), ronde.size()

    return train(state)


def test_run_starts_elastic_jobs():
    assert ronde.run(finished_size, np=2, min_np=1, max_np=2) == [(0, 2), (1, 2)]


def failing():
    raise KeyError("mine")


def test_run_raises_what_failed():
    with pytest.raises(ronde.Error, match="KeyError: 'mine'"):
        ronde.run(failing, np=2, min_num_proc=2)


def ranks_of_the_environment():
    if os.environ["HOROVOD_RANK"] != "0":  # it outlives rank 0
        time.sleep(0.5)
    return os.environ["HOROVOD_RANK"], os.environ["HOROVOD_SIZE"], os.environ["HOROVOD_HOSTNAME"]


def test_functions_that_never_call_init_have_a_rank():
    hosts = "localhost:2,127.0.0.1:2"
    found = ronde.run(ranks_of_the_environment, np=2, min_np=2, max_np=2, hosts=hosts)
    assert found == [("0", "2", "localhost"), ("1", "2", "localhost")]
