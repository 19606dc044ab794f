"""The loop of elastic jobs, with a launcher that the test plays."""

import os
from copy import copy
from unittest import mock

import numpy as np
import pytest
import ronde
from elastic_launcher import alone, dismissed_note, epoch_note, launcher  # noqa: F401  fixtures
from ronde import _core
from ronde._elastic import agreement
from ronde._snapshots.copies import Copies
from ronde.common.elastic import State, notification_manager, run_fn
from ronde.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt


def state_of(**values):
    return ronde.elastic.ObjectState(**{"step": 0, **values})


def test_the_loop_restores_resets_and_syncs_in_horovods_order():
    state, order = mock.MagicMock(), []
    for name in ("sync", "restore", "on_reset"):
        getattr(state, name).side_effect = lambda name=name: order.append(name)
    ends = iter([HorovodInternalError("dead"), HostsUpdatedInterrupt(False), None])

    def train(_):
        order.append("train")
        error = next(ends)
        if error:
            raise error
        return "done"

    assert run_fn(train, lambda: order.append("reset"))(state) == "done"
    epoch = ["sync", "train"]
    reset = ["reset", "on_reset"]
    assert order == [*epoch, "restore", *reset, *epoch, *reset, *epoch]


def test_without_sync_if_workers_only_leave():
    state = mock.MagicMock()
    ends = iter([HostsUpdatedInterrupt(True), None])

    def train(_):
        error = next(ends)
        if error:
            raise error

    run_fn(train, lambda: None)(state)
    assert state.sync.call_count == 1
    assert state.on_reset.call_count == 1


@pytest.mark.parametrize(
    "error",
    [
        ronde.MismatchError("shapes"),
        ronde.NonFiniteError("NaN"),
        ronde.InvalidArgumentError("name"),
        ronde.DuplicateNameError("twice"),
        ronde.UnsupportedError("no"),
        ronde.VersionMismatchError("1 and 2"),
        ronde.NotInitializedError("init"),
        ronde.InterruptedError("planted"),
        KeyError("mine"),
    ],
)
def test_errors_that_would_come_again_are_raised(launcher, error):  # noqa: F811
    def train(state):
        raise error

    with pytest.raises(type(error)):
        ronde.elastic.run(train)(state_of())
    assert len(launcher.ready) == 1


def test_after_a_failure_training_goes_on_from_the_last_commit(launcher):  # noqa: F811
    state = state_of(seen=[])
    sizes = []
    state.register_reset_callbacks([lambda: sizes.append(ronde.size())])

    @ronde.elastic.run
    def train(state):
        while state.step < 6:
            state.step += 1
            state.seen.append(state.step)
            if state.step == 3:
                state.commit()
            if state.step == 5 and len(launcher.ready) == 1:
                raise ronde.RankFailure("rank 0 was killed")
        return state.seen

    assert train(state) == [1, 2, 3, 4, 5, 6]
    ready = launcher.ready[1]
    assert (ready.began, ready.holds_state, ready.suspects) == (True, True, [])
    assert ready.why == "RankFailure: rank 0 was killed"
    assert launcher.notes == ["holds", "finished"]
    assert sizes == [1]


def test_the_launcher_learns_which_worker_was_lost(launcher):  # noqa: F811
    def train(state):
        if len(launcher.ready) == 1:
            error = ronde.RankFailure("rank 0 does not answer")
            error.rank = 0
            raise error

    ronde.elastic.run(train)(state_of())
    assert launcher.ready[1].suspects == [7]


def test_what_a_reset_callback_changes_lasts(launcher):  # noqa: F811
    state = state_of(rate=1.0)
    state.register_reset_callbacks([lambda: setattr(state, "rate", 0.5)])
    save = state.save

    @ronde.elastic.run
    def train(state):
        if len(launcher.ready) > 1:
            return state.step, state.rate
        state.step = 1
        state.commit()
        state.step = 2
        before = copy(state._progress)
        save()
        state._progress.copied_since(before)  # a rank has died before all had copied it
        raise ronde.RankFailure("rank 0 was killed")

    assert train(state) == (1, 0.5)


def test_a_death_in_a_commit_costs_one_restoration(launcher, monkeypatch):  # noqa: F811
    state, given, put = state_of(), [], Copies._put
    monkeypatch.setattr(
        Copies,
        "_put",
        staticmethod(lambda values, parts: given.append(values["objects"]) or put(values, parts)),
    )
    agree = state._agree

    def die():
        monkeypatch.setattr(state, "_agree", agree)
        raise ronde.RankFailure("rank 0 was killed")

    @ronde.elastic.run
    def train(state):
        if len(launcher.ready) > 1:
            return state.step
        state.step = 1
        state.commit()
        state.step = 2
        monkeypatch.setattr(state, "_agree", die)
        state.commit()

    assert train(state) == 1
    assert given == [{"step": 1}]


def test_a_change_surfaces_in_commit_alone_and_nothing_is_lost(launcher):  # noqa: F811
    @ronde.elastic.run
    def train(state):
        while state.step < 3:
            state.step += 1
            if len(launcher.ready) == 1:
                launcher.change(1, 1)
                assert not state._host_messages.empty()
            ronde.allreduce(np.ones(2), name="a")
            state.commit()
        return state.step, len(launcher.ready)

    assert train(state_of()) == (3, 2)
    assert launcher.ready[1].why == ""


@pytest.mark.parametrize(("bits", "skips"), [(1, False), (2, True), (3, False)])
def test_changes_have_horovods_meaning(launcher, bits, skips):  # noqa: F811
    state = state_of()
    launcher.change(5, bits)
    with pytest.raises(HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync is skips
    state.check_host_updates()  # once for each change


def test_a_dismissed_worker_ends_with_status_0(launcher):  # noqa: F811
    launcher.answers.append(dismissed_note(False, "asked to leave"))
    with pytest.raises(SystemExit) as ended:
        ronde.elastic.run(mock.Mock(__name__="f", side_effect=HorovodInternalError()))(state_of())
    assert ended.value.code == 0


def test_a_failed_job_is_an_error(launcher):  # noqa: F811
    launcher.answers.append(dismissed_note(True, "too few workers"))
    with pytest.raises(ronde.Error, match="too few workers"):
        ronde.elastic.run(mock.Mock(__name__="f", side_effect=HorovodInternalError()))(state_of())


def test_an_epoch_whose_ranks_do_not_meet_is_followed_by_the_next(launcher, monkeypatch):  # noqa: F811
    monkeypatch.setenv("RONDE_START_TIMEOUT_MS", "100")
    workers = [(6, "here", True), (7, "here", True)]
    launcher.answers.append(epoch_note(2, 1, workers))
    ends = iter([HorovodInternalError("dead"), None])

    def train(state):
        error = next(ends)
        if error:
            raise error

    ronde.elastic.run(train)(state_of())
    assert [ready.began for ready in launcher.ready] == [False, True, False]
    assert "TimeoutError" in launcher.ready[2].why
    assert launcher.ready[2].suspects == [6]  # the launcher learns who was not reached


def test_a_lost_launcher_is_an_error_after_a_checkpoint(launcher, tmp_path):  # noqa: F811
    state = state_of()
    state.checkpoint(tmp_path / "state", every=1000)

    @ronde.elastic.run
    def train(state):
        state.step = 5
        state.commit()
        launcher.end()
        state.step = 6
        state.commit()

    with pytest.raises(ronde.UnavailableError, match="the launcher of this job is gone"):
        train(state)
    again = state_of()
    again.checkpoint(tmp_path / "state")
    again._checkpoints.load(again)
    assert again.step == 6


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_a_signal_asks_to_leave_at_the_next_commit(run_job, name):
    status, output = run_job(
        """
        import os, signal, sys
        import ronde, ronde.elastic

        os.environ["RONDE_LEAVE_SIGNAL"] = sys.argv[1]
        number = signal.Signals["SIG" + sys.argv[1]]
        ronde.init()

        @ronde.elastic.run
        def train(state):
            while state.step < 3:
                if ronde.size() == 2 and ronde.rank() == 1:
                    os.kill(os.getpid(), number)
                state.step += 1
                state.commit()

        state = ronde.elastic.ObjectState(step=0)
        try:
            train(state)
            print("finished", state.step, ronde.size())
        except SystemExit as left:
            print("left", left.code, state.step)
        assert signal.getsignal(number) is signal.SIG_DFL
        """,
        2,
        [name],
        options=["--min-np", "1"],
    )
    assert "left 0 1" in output, output
    assert "finished 3 1" in output, output
    assert status == 0, output


def test_the_signal_ends_children_that_were_forked(run_job):
    status, output = run_job(
        """
        import multiprocessing, time
        import ronde, ronde.elastic

        ronde.init()

        def sleep_on(begun):
            begun.send(True)
            for _ in range(6000):
                time.sleep(0.01)

        @ronde.elastic.run
        def train(state):
            begun, told = multiprocessing.Pipe(duplex=False)
            child = multiprocessing.get_context("fork").Process(target=sleep_on, args=(told,))
            child.start()
            begun.recv()
            child.terminate()
            child.join()
            state.commit()
            return child.exitcode

        print("ended by", train(ronde.elastic.ObjectState(step=0)))
        """,
        1,
        options=["--min-np", "1"],
    )
    assert (status, output.count("ended by -15")) == (0, 1), output


def test_other_leave_signals_are_refused(launcher, monkeypatch):  # noqa: F811
    monkeypatch.setenv("RONDE_LEAVE_SIGNAL", "HUP")
    with pytest.raises(ValueError, match="'HUP'; allowed: TERM, USR1, off"):
        ronde.elastic.run(lambda state: None)(state_of())


def test_ranks_are_in_the_environment(launcher):  # noqa: F811
    names = ("HOROVOD_RANK", "HOROVOD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    assert [os.environ[name] for name in names] == ["0", "1", "0", "1", "0"]


def test_without_a_launcher_a_job_of_one_process_goes_on(alone):  # noqa: F811
    state = state_of()
    ends = iter([HorovodInternalError("dead"), None])

    def train(state):
        error = next(ends)
        if error:
            raise error
        return 3

    assert ronde.elastic.run(train)(state) == 3


def test_horovods_manager_passes_changes_on(alone):  # noqa: F811
    state = State(lambda value: value, lambda: 0)
    notification_manager.register_listener(state)
    notification_manager.handle_hosts_updated(1.0, 1)
    notification_manager.remove_listener(state)
    with pytest.raises(HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync
    with pytest.raises(NotImplementedError):
        state.commit()


def test_old_changes_are_left_out_and_kinds_add_up(alone):  # noqa: F811
    state = state_of()
    state.on_hosts_updated(5.0, 1)
    state.on_hosts_updated(4.0, 2)  # older than the one before
    with pytest.raises(HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync
    state.on_hosts_updated(5.0, 2)  # acted on already
    state.check_host_updates()
    state.on_hosts_updated(6.0, 1)
    state.on_hosts_updated(7.0, 2)
    with pytest.raises(HostsUpdatedInterrupt) as raised:
        state.commit()
    assert not raised.value.skip_sync


def test_a_worker_that_joins_may_call_operations_before_run(launcher):  # noqa: F811
    """The others call them in reset callbacks."""
    assert not launcher.member.state_is_held()
    launcher.answers.append(epoch_note(2, 0, [(7, "here", False), (8, "here", True)]))
    launcher.member.next_epoch()
    agreement._answer_early()
    assert agreement._early.rows is not None
    ronde.allreduce(np.ones(1), name="before")
    launcher.member.hold_state()
    assert agreement._early.rows.wait().tobytes() == _core.StartFacts().encoded()


def test_plain_runs_raise_failures_of_several_ranks(run_job):
    status, output = run_job(
        """
        import ronde
        ronde.init()

        @ronde.elastic.run
        def train(state):
            state.commit()
            raise ronde.RankFailure("rank 1 was killed")

        try:
            train(ronde.elastic.ObjectState(step=0))
        except ronde.RankFailure:
            print("raised")
        """
    )
    assert status == 0, output
    assert output.count("raised") == 2
