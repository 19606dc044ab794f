"""What `tests/run.sh --gpu` runs on a machine with a GPU; writes docs/gpu-results.md.

Exit status: 0 where all that could run passed, 1 where something failed, 2 without a GPU.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "gpu" / "torch_cases.py"
GPU_TEST = ROOT / "build" / "release" / "tests" / "gpu" / "gpu_test"
LIMIT_S = 900


def gpus() -> list[str]:
    """One line per GPU: name, driver, memory; none without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def ranks_for(devices: int) -> tuple[int, dict[str, str]]:
    """How many ranks to start, and what they need in their environment."""
    if devices > 1:
        return devices, {}
    return 2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}  # NCCL 2.30 or newer


def has_torch_cuda() -> bool:
    """Whether this Python's PyTorch sees a GPU."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Results:
    """What ran and how it ended, as Markdown."""

    def __init__(self) -> None:
        """Starts empty."""
        self.lines: list[str] = []
        self.figures: list[dict[str, object]] = []
        self.failed = False

    def run(
        self, name: str, command: list[str], environment: dict[str, str], want: str = ""
    ) -> None:
        """Runs one part; it passes with status 0, or where its output holds `want`."""
        print(f"==> {name}", flush=True)
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            output, passed = done.stdout, want in done.stdout if want else done.returncode == 0
        except subprocess.TimeoutExpired as expired:
            output, passed = f"{expired.stdout!r}\nstopped after {LIMIT_S} s", False
        print(output, flush=True)
        self.failed |= not passed
        self.lines.append(f"- {name}: {'passed' if passed else 'FAILED'}")
        for line in output.splitlines():
            start = line.find('{"figure"')
            if start >= 0:
                self.figures.append(json.loads(line[start:]))

    def skip(self, name: str, reason: str) -> None:
        """Notes what could not run."""
        self.lines.append(f"- {name}: NOT RUN, {reason}")

    def write(self, machine: list[str]) -> None:
        """Writes docs/gpu-results.md."""
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        text = [f"# Results on a GPU\n\n{today}, written by `tests/run.sh --gpu`.\n", *machine, ""]
        text += [*self.lines, "\n## Figures\n"]
        text += [f"- {json.dumps(figure)}" for figure in self.figures] or ["None were measured."]
        (ROOT / "docs" / "gpu-results.md").write_text("\n".join(text) + "\n")


def torch_parts(results: Results, devices: int) -> None:
    """The torch cases over each way, the killed rank, the figures."""
    ranks, environment = ranks_for(devices)
    ronde = [str(Path(sys.executable).parent / "ronde"), "run", "-np", str(ranks)]
    for backend in ("nccl", "shm", "tcp"):
        command = [*ronde, "--backend", backend, "--", sys.executable, str(CASES)]
        results.run(f"torch cases, {ranks} ranks, --backend {backend}", command, environment)
    command = [*ronde, "--", sys.executable, str(CASES)]
    results.run("a rank killed in mid-collective", [*command, "--kill"], environment, "KILLED-OK")
    results.run("figures of fused allreduce", [*command, "--figures"], environment)


def main() -> int:
    """Runs every part."""
    machine = gpus()
    if not machine:
        print("no GPU here: nvidia-smi lists none, so nothing was run", file=sys.stderr)
        return 2
    results = Results()
    results.run("device layer", [str(GPU_TEST)], {})
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        results.skip("device layer under compute-sanitizer", "it is not installed")
    else:
        command = [sanitizer, "--error-exitcode", "1", str(GPU_TEST), "-tce=figure*,*more memory*"]
        results.run("device layer under compute-sanitizer", command, {})
    if has_torch_cuda():
        torch_parts(results, len(machine))
    else:
        results.skip("torch cases", f"the PyTorch of {sys.executable} sees no GPU")
    results.write([f"- GPU: {line}" for line in machine])
    return int(results.failed)


if __name__ == "__main__":
    sys.exit(main())
