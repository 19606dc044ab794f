"""Damaged checkpoints are named, set aside and never counted; whole ones are not lost."""

import fcntl
import os
import re
import resource
import shutil

import numpy as np
import pytest
import ronde
from elastic_launcher import alone  # noqa: F401  (a fixture)
from ronde import _core
from ronde.elastic import ArrayState, ObjectState

pytestmark = pytest.mark.usefixtures("alone")


def written(folder, steps, keep=9, **options):
    """A state that has written a checkpoint of each step."""
    state = ObjectState(step=0)
    state.checkpoint(folder / "m", keep=keep, **options)
    commit(state, steps)
    return state


def commit(state, steps):
    for _ in range(steps):
        state.step += 1
        state.commit()
    state._checkpoints.wait()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def replace_by_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "notes").write_text("mine")


def replace_by_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_a_link_to_nowhere(path):
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def copy_an_older_one(path):
    shutil.copy(path.with_name("m.000000000001.ronde"), path)


DAMAGES = {
    "a bit": (flip_a_bit, "its checksum is not that of its content"),
    "truncated": (truncate, "bytes of state, not"),
    "empty": (lambda path: path.write_bytes(b""), "it is empty"),
    "foreign": (lambda path: path.write_bytes(b"weights\n" * 99), "does not begin as a checkpoint"),
    "another step": (copy_an_older_one, "it holds step 1, not 3"),
    "a folder": (replace_by_a_folder, "ronde.json is missing or damaged"),
    "a pipe": (replace_by_a_pipe, "it is no file"),
    "a link": (replace_by_a_link_to_nowhere, "it is no file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_once_set_aside_and_never_counted(tmp_path, damage):
    written(tmp_path, 3)
    newest = tmp_path / "m.000000000003.ronde"
    hurt, why = DAMAGES[damage]
    hurt(newest)
    again = ObjectState(step=0)
    with pytest.warns(UserWarning, match=why) as said:
        again.checkpoint(tmp_path / "m", keep=2)
    assert again._checkpoints.newest_step() == 2
    assert [str(newest) in str(one.message) for one in said] == [True]
    assert names(tmp_path)[-1] == "m.000000000003.ronde.damaged"
    again._checkpoints.load(again)
    assert again.step == again._checkpoints.newest_step() == 2
    again._progress = _core.Progress(2)
    commit(again, 1)  # its file has the name of the damaged one
    kept = ["m.000000000002.ronde", "m.000000000003.ronde"]
    assert names(tmp_path) == [*kept, "m.000000000003.ronde.damaged"]


def test_files_of_later_steps_that_are_no_checkpoints_push_nothing_out(tmp_path):
    state = written(tmp_path, 2, keep=2)
    for number in ("999999999999", "9" * 40):
        (tmp_path / f"m.{number}.ronde").write_text("no checkpoint")
    (tmp_path / "m.888888888888.dcp").mkdir()
    with pytest.warns(UserWarning, match="is damaged") as said:
        commit(state, 2)
    assert len(said) == 3
    whole = [name for name in names(tmp_path) if not name.endswith(".damaged")]
    assert whole == ["m.000000000003.ronde", "m.000000000004.ronde"]


def test_whole_files_of_later_steps_stay_and_are_told(tmp_path):
    written(tmp_path, 9, keep=2)
    state = ObjectState(step=0)  # begins anew, though files are there
    state.checkpoint(tmp_path / "m", keep=2)
    with pytest.warns(UserWarning, match="later steps than 1 are there: m.000000000009.ronde"):
        commit(state, 4)
    assert [int(name[2:14]) for name in names(tmp_path)] == [3, 4, 8, 9]


def test_a_file_that_is_damaged_while_the_job_runs_does_not_count(tmp_path):
    state = written(tmp_path, 3, keep=2)
    flip_a_bit(tmp_path / "m.000000000003.ronde")
    with pytest.warns(UserWarning, match="is damaged"):
        commit(state, 1)
    assert "m.000000000002.ronde" in names(tmp_path)


def test_names_may_hold_any_characters(tmp_path):
    for name in ("a[1]*?", "m.1.2", "²"):
        state = ObjectState(step=0)
        state.checkpoint(tmp_path / name, keep=1)
        commit(state, 2)
        assert state._checkpoints.newest_step() == 2
    assert len(names(tmp_path)) == 3


def test_a_file_that_cannot_be_read_or_renamed_is_told_once_and_left(tmp_path):
    written(tmp_path, 2)
    name = "n" * 232  # such that NAME.damaged is too long for a file
    (tmp_path / "m.000000000002.ronde").rename(tmp_path / f"{name}.000000000002.ronde")
    (tmp_path / f"{name}.000000000003.ronde").write_text("no checkpoint")
    (tmp_path / f"{name}.000000000004.ronde").symlink_to("/proc/self/mem")
    before = names(tmp_path)
    state = ObjectState(step=0)
    with pytest.warns(UserWarning, match="It is not used, but cannot be set aside") as said:
        state.checkpoint(tmp_path / name)
    assert [state._checkpoints.newest_step() for _ in range(3)] == [2] * 3
    told = [str(one.message) for one in said]
    assert len(told) == 2
    assert "cannot be read: Input/output error; it is not used" in told[0]
    assert "It is not used, but cannot be set aside: File name too long" in told[1]
    assert names(tmp_path) == before


def test_a_full_disk_is_told_at_the_next_commit_and_loses_nothing(tmp_path):
    state = written(tmp_path, 2, keep=1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.warns(UserWarning, match=r"cannot write .*m\.000000000003\.ronde: .*too large"):
            commit(state, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == ["m.000000000002.ronde"]
    commit(state, 1)
    assert names(tmp_path) == ["m.000000000004.ronde"]


def test_parts_of_dead_writers_are_removed_those_of_living_ones_stay(tmp_path):
    dead = [".m.000000000001.ronde.abc123", ".m.000000000001.dcp.abc123"]
    other = [".m.000000000001.ronde.alive", ".n.000000000001.ronde.abc123", ".m.swp", ".m.1.txt.a"]
    (tmp_path / dead[1]).mkdir()
    for name in (dead[0], f"{dead[1]}/piece", *other):
        (tmp_path / name).write_text("part")
    with (tmp_path / other[0]).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        written(tmp_path, 1)
    assert names(tmp_path) == sorted([*other, "m.000000000001.ronde"])


def test_what_is_loaded_twice_is_checked_once(tmp_path):
    state = written(tmp_path, 1)
    file = tmp_path / "m.000000000001.ronde"
    before = file.stat()
    flip_a_bit(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # nobody can see that it changed
    assert state._checkpoints.newest_step() == 1


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"w": np.zeros(1)}, r"its w has shape \[1\], but this state's has \[4\]"),
        ({"v": np.zeros(4)}, "it has the arrays v, but this state has w"),
        ({"w": np.zeros(4), "epoch": 0}, "it has the objects epoch, step, but this state has step"),
    ],
)
def test_a_file_of_another_state_is_refused_and_changes_nothing(tmp_path, values, problem):
    """An array of one element filled the state's; an array that the file lacks was left."""
    state = ArrayState(step=7, **values)
    state.checkpoint(tmp_path / "m")
    commit(state, 1)
    mine = ArrayState(step=0, w=np.ones(4))
    mine.checkpoint(tmp_path / "m")
    with pytest.raises(ronde.InvalidArgumentError, match=problem):
        mine._checkpoints.load(mine)
    assert (mine.step, mine.w.tolist()) == (0, [1.0] * 4)


def test_other_words_for_none_whole_are_refused(tmp_path):
    with pytest.raises(ValueError, match="none_whole='stop'; allowed: 'warn', 'error'"):
        ObjectState(step=0).checkpoint(tmp_path / "m", none_whole="stop")


def test_a_job_without_a_launcher_of_elastic_jobs_goes_on_from_a_checkpoint(tmp_path):
    train = ronde.elastic.run(lambda state: commit(state, 3))
    for expected in (3, 6):
        state = ObjectState(step=0)
        state.checkpoint(tmp_path / "m")
        train(state)
        assert state.step == expected


# Real jobs: rank 1 has files of its own, as on a host of its own.
JOB = """
    import os, sys, warnings
    from pathlib import Path
    import ronde, ronde.elastic

    warnings.simplefilter("always")
    warnings.showwarning = lambda text, *_: print(f"warning: {text}", flush=True)
    ronde.init()
    state = getattr(ronde.elastic, sys.argv[3])(step=0)
    state.checkpoint(Path(sys.argv[1]) / str(ronde.rank()) / "m", none_whole=sys.argv[2])

    @ronde.elastic.run
    def train(state):
        print(f"begins at {state.step}", flush=True)

    train(state)
"""


@pytest.mark.parametrize("options", [["--min-np", "2"], []], ids=["elastic", "plain"])
def test_ranks_agree_on_the_newest_whole_file_of_any_host(run_job, tmp_path, options):
    def run(none_whole="warn", kind="ObjectState"):
        return run_job(JOB, 2, [tmp_path, none_whole, kind], options=options)

    for rank, steps in (0, 2), (1, 5):
        written(tmp_path / str(rank), steps)
    status, output = run()
    assert (status, output.count("begins at 5")) == (0, 2), output
    flip_a_bit(tmp_path / "1" / "m.000000000005.ronde")
    status, output = run()
    assert (status, output.count("begins at 4")) == (0, 2), output
    assert output.count("warning: ") == 1, output

    status, output = run(kind="ArrayState")  # both say what the one that loads has found
    assert status == 1, output
    text = "rank 1 cannot load the checkpoint of step 4: .* written by a state with other arguments"
    assert re.search(text, output), output
    assert "RankFailure" not in output

    for path in tmp_path.glob("?/m.*.ronde"):
        truncate(path)
    status, output = run("error")
    assert status == 1, output
    assert re.search('no checkpoint is whole; damaged: .*checkpoint.none_whole="error"', output)
    status, output = run()
    assert (status, output.count("begins at 0")) == (0, 2), output
    told = re.findall("warning: .*Training begins from scratch", output)
    assert len(told) == 1, output
    assert "/0/m.000000000002.ronde.damaged" in told[0], output
    assert "and 3 more" in told[0], output
