"""Traces of torch.profiler show the collectives of ronde.torch and of torch.distributed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde._command import program
from ronde.torch._collectives import profiler

CASES = Path(__file__).with_name("profiled_job.py")
COMMON = {"Group size": 2, "Process Group Ranks": "[0, 1]"}


def events_of_rank_1(api, folder):
    """The events of Ronde that rank 1's trace has, as (name, arguments)."""
    job = subprocess.run(
        [program(), "run", "-np", "2", "--", sys.executable, CASES, api, folder],
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    listed = json.loads((folder / "1.json").read_text())["traceEvents"]
    return [
        (event["name"].removeprefix("ronde::"), event["args"])
        for event in sorted(listed, key=lambda event: event.get("ts", 0))
        if event.get("name", "").startswith("ronde::")
    ]


def has(arguments, **wanted):
    named = {key.replace("_", " "): value for key, value in wanted.items()}
    return {**COMMON, **named}.items() <= arguments.items()


def test_horovods_names_appear_with_sizes_types_and_group(tmp_path):
    events = events_of_rank_1("horovod", tmp_path)
    names = "allreduce allreduce allreduce allreduce allgather broadcast reduce_scatter alltoall"
    assert [name for name, _ in events] == names.split()
    (first, half, long, grouped, gathered, sent, scattered, exchanged) = (e for _, e in events)
    assert first["Process Group Name"] == "process set 0"
    assert first["Name"] == "grad"
    assert first["Input Dims"] == [[4, 3]]
    assert has(first, Collective_name="allreduce", dtype="Float", Reduce_op="Sum")
    assert has(first, In_msg_nelems=12, Out_msg_nelems=12)
    assert has(half, dtype="Half", Reduce_op="Average")
    assert has(long, dtype="Long", Reduce_op="Max")
    assert grouped["Input Dims"] == [[4, 3], [2, 3]]
    assert has(grouped, In_msg_nelems=18)
    assert has(gathered, Collective_name="allgather", In_msg_nelems=12)
    assert has(sent, Root=1)
    assert has(scattered, Collective_name="reduce_scatter")
    assert has(exchanged, Collective_name="alltoall")


def test_process_groups_appear_with_sizes_types_and_group(tmp_path):
    events = events_of_rank_1("distributed", tmp_path)
    names = ["allreduce", "allgather", "broadcast", "reduce_scatter", "alltoall", "barrier"]
    assert [name for name, _ in events[:6]] == names
    reduced, gathered, sent, scattered, exchanged, _ = (e for _, e in events[:6])
    assert has(reduced, dtype="Float", In_msg_nelems=12, Reduce_op="Sum", Process_Group_Name="0")
    assert has(gathered, In_msg_nelems=12, Out_msg_nelems=24)
    assert has(sent, Root=1)
    assert has(scattered, In_msg_nelems=12, Out_msg_nelems=6)
    assert has(exchanged, Out_msg_nelems=12)
    of_ddp = events[-1]
    assert of_ddp[0] == "allreduce"
    assert has(of_ddp[1], In_msg_nelems=8)  # backward runs in a thread of its own


def test_without_a_profiler_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(profiler, "_event", lambda *_: pytest.fail("an event was made"))
    ronde.init()
    hvd.allreduce(torch.ones(3))
    hvd.allgather(torch.ones(3))
    ronde.shutdown()


def test_long_lists_of_ranks_are_cut():
    text = profiler._listed(range(100))
    assert text.startswith("[0, 1, 2")
    assert text.endswith("31, ...]")


def test_an_older_torch_gets_names_and_shapes(monkeypatch, tmp_path):
    monkeypatch.setattr(profiler, "_event", None)
    with torch.profiler.profile(record_shapes=True) as profile:
        event = profiler.begin(0, [torch.ones(4, 3)], [], [0, 1], "", "0", hvd.Sum, -1)
        event.__exit__(None, None, None)
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    listed = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (found,) = [e for e in listed if e.get("name", "").startswith("ronde::")]
    assert found["args"]["Input Dims"][0] == [4, 3]
    assert "[0, 1]" in found["args"]["Concrete Inputs"]
