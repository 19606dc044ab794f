"""When a waiting thread counts as the only one that could submit a collective."""

import subprocess
import sys

SCRIPT = """
import multiprocessing
import threading

import tqdm
from ronde import _core
from ronde._alone import ask_too, submits_alone

assert submits_alone()
go_on = threading.Event()
other = threading.Thread(target=go_on.wait)
other.start()
assert not submits_alone()
go_on.set()
other.join()
with tqdm.tqdm(total=1):
    queue = multiprocessing.Queue()
    queue.put("something")
    assert threading.active_count() == 3
    assert submits_alone()
    queue.get()
_core.c_api()
assert not submits_alone()
graphs = [True]
ask_too(lambda: not graphs)
assert not submits_alone()
graphs.clear()
assert submits_alone()
"""


def test_other_threads_count_but_for_those_that_submit_nothing_and_so_do_users_of_the_c_api():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=480, check=False
    )
    assert done.returncode == 0, done.stderr
