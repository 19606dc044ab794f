"""How a rank ended, as the launcher saw it, in what the others are told later."""

from __future__ import annotations

import re

import pytest

# The launcher ends the others half a second after a failure.
SCRIPT = """
    import os, signal, sys, time
    import numpy as np
    import ronde

    ronde.init()
    others = ronde.rank() != 1
    ronde.allreduce(np.ones(4), "first")
    if not others:
        {end}
    while others:
        try:
            ronde.allreduce(np.ones(4), "later")
        except ronde.RankFailure as error:
            others = "; pid " not in str(error)
            told = str(error)
            time.sleep(0.001)
    print("told:", told, flush=True)
"""


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was killed by signal 9 \(Killed\)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", r"was killed by signal 11 \(Segmentation fault\)"),
        ("os._exit(7)", "exited with status 7"),
        ("sys.exit(3)", "exited with status 3"),
    ],
)
def test_later_errors_tell_how_the_rank_ended(run_job, end, how):
    _, output = run_job(SCRIPT.replace("{end}", end), np=3)
    told = re.findall(rf"told: rank 1 .*; pid (\d+) {how}$", output, re.MULTILINE)
    assert told == told[:1] * 2, output
    assert "is no setting" not in output, output
