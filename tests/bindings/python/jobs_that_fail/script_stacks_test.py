"""The Python lines of a running job's ranks, as `ronde doctor --job` and dumps tell them."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time

import jobs
import pytest

HANG = """
    import ctypes, os, sys, threading, time
    import numpy as np
    import ronde

    def load():
        time.sleep(600)

    def hold_the_lock():
        ctypes.PyDLL(None).pause()

    def reduce():
        ronde.allreduce(np.ones(4), name="gradient")

    def consume(ready):
        threading.Event().wait()

    ronde.init()
    if ronde.rank() == 0:
        open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
    if ronde.rank() == 1:
        threading.Thread(target=consume, args=(1,), name="consumer", daemon=True).start()
    [reduce, load, hold_the_lock][ronde.rank()]()
"""


def doctor(job, *options):
    """What `ronde doctor --job` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "ronde", "doctor", "--job", str(job), *options],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def doctor_until(job, wanted, *options):
    """The same, once it has all the texts."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        output = doctor(job, *options)
        if all(re.search(text, output, re.MULTILINE) for text in wanted):
            return output
        time.sleep(0.1)
    pytest.fail(f"doctor never said {wanted}; at last: {output}")


@contextlib.contextmanager
def running(folder, script, np):
    """A job whose ranks run the script, until the block ends; the pid of its rank 0."""
    (folder / "train.py").write_text(textwrap.dedent(script))
    pid = folder / "pid"
    job = jobs.launch([sys.executable, str(folder / "train.py"), str(pid)], np)
    try:
        deadline = time.monotonic() + 60
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield int(pid.read_text())
    finally:
        job.kill()  # its ranks end with it, also those that answer no signal
        jobs.end(job, 60)


def test_doctor_names_the_line_of_each_rank_that_hangs(tmp_path):
    with running(tmp_path, HANG, 3) as pid:
        wanted = [
            r"^rank 0: train\.py:13 in reduce$",
            r"^rank 1: train\.py:7 in load$",
            r"^rank 2: no Python line: a thread holds the interpreter's lock \(GIL\)",
        ]
        output = doctor_until(pid, wanted, "--output", str(tmp_path))
    ranks = re.split(r"^rank \d, pid \d+ on .*\n", output, flags=re.MULTILINE)[1:]
    assert len(ranks) == 3, output
    assert "site-packages/ronde" not in output
    assert "_collectives/calls.py" not in output
    frames = r'"MainThread":\n      train\.py:13 in reduce\n      train\.py:\d+ in <module>\n'
    assert re.search(frames, ranks[0]), output
    assert re.search(
        r'"consumer":\n(      threading\.py.*\n)+      train.py:16 in consume', ranks[1]
    )
    assert re.search(r'thread (\d+) ".*": S \(sleeping\)', ranks[2]), output
    for rank, key in enumerate(["line", "line", "error"]):
        (path,) = tmp_path.glob(f"ronde-dump.*rank{rank}.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert any(line["type"] == "script" and key in line for line in lines), lines


LIVES = """
    import os, sys, time
    import numpy as np
    import ronde

    for life in range(6):
        ronde.init()
        ronde.allreduce(np.ones(4), name="gradient")
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        if life < 5:
            ronde.shutdown()
"""


def ask_all(pid):
    """The dumps of all runtimes of a process, asked at their sockets."""
    with open("/proc/net/unix") as sockets:
        names = set(re.findall(rf"@(ronde-doctor/{pid}/\S*)", sockets.read()))
    for name in names:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect("\0" + name)
            client.sendall(b"ronde-doctor-1\r\n")
            yield b"".join(iter(lambda: client.recv(65536), b""))


def test_questions_while_a_process_joins_leaves_forks_and_ends_do_no_harm(tmp_path):
    (tmp_path / "lives.py").write_text(textwrap.dedent(LIVES))
    told = []
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "lives.py"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        asking = threading.Thread(target=ask_until_over, args=(process, told))
        asking.start()
        try:
            output, _ = process.communicate(timeout=480)
        finally:
            process.kill()
            asking.join()
        assert process.returncode == 0, output
    assert any(b'"line":"lives.py:' in answer for answer in told)


def ask_until_over(process, told):
    while process.poll() is None:
        told += ask_all(process.pid)


def test_a_runtime_that_is_dropped_with_the_lock_held_ends():
    script = r"""
        import ctypes, os, re, socket, sys
        from ronde import _core

        sys.setswitchinterval(1000)  # only calls that block give the lock away
        runtime = _core.Runtime.create({})
        sockets = open("/proc/net/unix").read()
        name = re.search(rf"@(ronde-doctor/{os.getpid()}/\S*)", sockets).group(1)
        client = socket.socket(socket.AF_UNIX)
        client.connect("\0" + name)
        client.sendall(b"ronde-doctor-1\r\n")
        ctypes.PyDLL(None).usleep(300_000)  # the question now waits for the lock
        del runtime
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
