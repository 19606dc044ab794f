"""Compares the loss after 500 steps with kills and joins to its spread over seeds without them.

Each run trains the same model on 3 ranks. Prints one JSON line for each run, then a summary: the
losses with faults should lie within the spread of the others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from driver.sandbox import Sandbox

HERE = Path(__file__).resolve().parent.parent
RANKS, STEPS = 3, 500
LIMIT_S = 900


class Run:
    """One training job."""

    def __init__(self, ronde: str, seed: int, step_seconds: float, output: Path) -> None:
        command = [ronde, "run", "-np", str(RANKS), "--min-np", "1", "--"]
        command += [sys.executable, "-B", str(HERE / "loss_worker.py")]
        variables = {"SEED": str(seed), "STEP_SECONDS": str(step_seconds), "OMP_NUM_THREADS": "1"}
        self.output = output
        self.process = subprocess.Popen(
            command,
            stdout=output.open("w"),
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
        )

    def running(self) -> bool:
        return self.process.poll() is None

    def found(self, pattern: str) -> list[str]:
        return re.findall(pattern, self.output.read_text(errors="replace"))

    def wait_for_step(self, step: int) -> None:
        while self.running() and int((self.found(r"STEP (\d+)") or ["0"])[-1]) < step:
            time.sleep(0.02)

    def kill_one(self, chance: random.Random) -> None:
        """Kills one of the workers, if another is left."""
        workers = []
        for pid in Sandbox.descendants():
            with contextlib.suppress(OSError):
                if b"RONDE_WORKER=" in Path(f"/proc/{pid}/environ").read_bytes():
                    workers.append(pid)
        if len(workers) > 1:
            with contextlib.suppress(OSError):
                os.kill(chance.choice(workers), signal.SIGKILL)

    def result(self) -> dict[str, Any]:
        """What the job has printed."""
        status = self.process.wait(LIMIT_S)
        losses = set(self.found(r"LOSS ([\d.]+)"))
        if status != 0 or len(losses) != 1:
            raise SystemExit(f"exit status {status}:\n{self.output.read_text()[-4000:]}")
        joined = " ".join(self.found(r"epoch \d+: .*?, workers? ([\d, and]+) joins?"))
        sizes = self.found(r"steps by size (\{.*?\})")[0]
        loss = float(losses.pop())
        return {"loss": loss, "joins": len(re.findall(r"\d+", joined)), "steps_by_size": sizes}


def train(ronde: str, seed: int, kills: int, step_seconds: float) -> dict[str, Any]:
    """One run. The kills are spread over its steps."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="loss-") as folder:
        run = Run(ronde, seed, step_seconds if kills else 0, Path(folder) / "output")
        for at in sorted(chance.sample(range(5, STEPS - 20), kills)):
            run.wait_for_step(at)
            run.kill_one(chance)
        return {"seed": seed, "kills": kills, **run.result()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ronde", default=str(Path(sys.executable).parent / "ronde"))
    parser.add_argument("--seeds", type=int, default=10, help="runs without faults")
    parser.add_argument("--runs", type=int, default=5, help="runs with faults, by the same seeds")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--step-seconds", type=float, default=0.15, help="pause, so that all join")
    arguments = parser.parse_args()
    losses: dict[bool, list[float]] = {False: [], True: []}
    for kills, count in ((0, arguments.seeds), (arguments.kills, arguments.runs)):
        for seed in range(1, count + 1):
            line = train(arguments.ronde, seed, kills, arguments.step_seconds)
            losses[kills > 0].append(line["loss"])
            print(json.dumps(line), flush=True)
    low, high = min(losses[False]), max(losses[False])
    within = all(low <= loss <= high for loss in losses[True])
    summary = {
        "without": [round(low, 4), round(statistics.median(losses[False]), 4), round(high, 4)],
        "with_kills": [round(loss, 4) for loss in losses[True]],
        "within_the_spread": within,
    }
    print(json.dumps(summary))
    return 0 if within else 1
