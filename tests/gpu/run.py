"""What `tests/run.sh --gpu` runs on a machine with a GPU; writes docs/measurements/gpu.md.

    python tests/gpu/run.py                runs every part, and measures
    python tests/gpu/run.py --without-gpu  runs nothing, and writes that nothing was run

Exit status: 0 where all that could run passed, 1 where something failed, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from gpu import targets  # noqa: E402

HERE = ROOT / "tests" / "gpu"
BUILT = ROOT / "build" / "release" / "tests" / "gpu"
LIMIT_S = 900
NOTHING = "Nothing on this page was ever run on a real GPU."

# What no part of this suite runs.
NOT_COVERED = (
    "arrays of CuPy, Numba and JAX (DLPack and `__cuda_array_interface__` are tried with torch's)",
    "jobs of several hosts with GPUs",
    "process sets that overlap, with fewer than three ranks",
    "the timeline's track `gpu` and how it comes onto the host's clock",
    "devices of other generations than the one above, and the PTX for those to come",
)


@dataclass
class Part:
    """A command that passes with status 0, or where its output contains `want`."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    want: str = ""
    missing: str = ""  # why it cannot run here; empty: it can


def gpus() -> list[str]:
    """One line per GPU: name, driver, memory; none without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def ranks_for(devices: int) -> tuple[int, dict[str, str]]:
    """The number of ranks to start, and their environment."""
    if devices > 1:
        return devices, {}
    return 2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}  # NCCL 2.30 or newer


def has_torch_cuda() -> bool:
    """True where this Python's PyTorch sees a GPU."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def device_parts(sanitizer: list[str]) -> list[Part]:
    """The device layer and its kernels, in one process."""
    program = str(BUILT / "gpu_test")
    missing = "" if sanitizer else "compute-sanitizer is not installed"
    checked = [*sanitizer, program, "-tce=figure*,*more memory*"]
    return [
        Part("device layer and kernels", [program, "-tce=figure*"]),
        Part("device layer and kernels under compute-sanitizer", checked, missing=missing),
        Part("figures of the kernels", [program, "-tc=figure*"]),
    ]


def conformance_parts(ronde: list[str], shared: dict[str, str], sanitizer: list[str]) -> list[Part]:
    """The conformance suite, a process for each rank."""
    program = [str(BUILT / "gpu_conformance"), "--abort-after=1"]
    missing = "" if sanitizer else "compute-sanitizer is not installed"
    staged, nccl = "-tc=gpu staged*", "-tc=gpu nccl*"
    checked = [*ronde, "--", *sanitizer, *program, staged]
    return [
        Part("conformance suite, staged", [*ronde, "--", *program, staged], shared),
        Part("conformance suite, NCCL", [*ronde, "--", *program, nccl], shared),
        Part(
            "conformance suite, staged, under compute-sanitizer", checked, shared, missing=missing
        ),
        Part("figure of the host's time", [*ronde, "--", *program, "-tc=figure*"], shared),
    ]


def torch_parts(ronde: list[str], shared: dict[str, str], missing: str) -> list[Part]:
    """The torch cases over each path, the killed rank, the figures."""
    cases = [sys.executable, str(HERE / "torch_cases.py")]
    parts = [
        Part(f"torch cases, --backend {backend}", [*ronde, "--backend", backend, "--", *cases])
        for backend in ("nccl", "shm", "tcp")
    ]
    killed = [*ronde, "--", *cases, "--kill"]
    parts.append(Part("a rank killed in mid-collective", killed, want="KILLED-OK"))
    parts.append(Part("figures of fused allreduce", [*ronde, "--", *cases, "--figures"]))
    for part in parts:
        part.environment = shared
    figure = [sys.executable, str(HERE / "top_figure.py"), str(BUILT / "libgpu_top.so")]
    parts.append(Part("figure of top-k beside torch.topk", figure))
    for part in parts:
        part.missing = missing
    return parts


def all_parts(devices: int) -> list[Part]:
    """All parts, in the order in which they run. Without a device none can run."""
    ranks, shared = ranks_for(devices)
    ronde = [str(Path(sys.executable).parent / "ronde"), "run", "-np", str(ranks)]
    found = shutil.which("compute-sanitizer")
    sanitizer = [found, "--error-exitcode", "1"] if found else []
    torch = "" if devices and has_torch_cuda() else "this Python's PyTorch sees no GPU"
    parts = device_parts(sanitizer)
    parts += conformance_parts(ronde, shared, sanitizer)
    parts += torch_parts(ronde, shared, torch)
    if devices == 0:
        for part in parts:
            part.missing = "no GPU"
    return parts


class Results:
    """The results of a run, as Markdown."""

    def __init__(self) -> None:
        """Starts empty."""
        self.lines: list[str] = []
        self.figures: list[targets.Figure] = []
        self.failed = False

    def run(self, part: Part) -> None:
        """Runs one part, or records why it cannot run."""
        if part.missing:
            self.lines.append(f"- {part.name}: NOT RUN, {part.missing}")
            return
        print(f"==> {part.name}", flush=True)
        try:
            done = subprocess.run(
                part.command,
                env={**os.environ, **part.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            output = done.stdout
            passed = part.want in output if part.want else done.returncode == 0
        except subprocess.TimeoutExpired as expired:
            output, passed = f"{expired.stdout!r}\nstopped after {LIMIT_S} s", False
        except OSError as error:
            output, passed = str(error), False
        print(output, flush=True)
        self.failed |= not passed
        self.lines.append(f"- {part.name}: {'passed' if passed else 'FAILED'}")
        for line in output.splitlines():
            start = line.find('{"figure"')
            if start >= 0:
                self.figures.append(json.loads(line[start:]))

    def text(self, machine: list[str]) -> str:
        """The page for a machine with these GPUs."""
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        measured = [f"- `{json.dumps(figure)}`" for figure in self.figures]
        gpu = [f"- GPU: {line}" for line in machine] or [f"- GPU: none. {NOTHING}"]
        writer = "tests/run.sh --gpu" if machine else "tests/gpu/run.py --without-gpu"
        sections = [
            ["# Results on a GPU", "", f"{today}, written by `{writer}`.", "", *gpu],
            ["## Targets", "", *targets.table(self.figures)],
            ["## Parts", "", *self.lines],
            ["## Figures", "", *(measured or ["None were measured."])],
            ["## Not run by this suite", "", *[f"- {what}" for what in NOT_COVERED]],
        ]
        return "\n\n".join("\n".join(lines) for lines in sections) + "\n"

    def write(self, machine: list[str]) -> None:
        """Writes docs/measurements/gpu.md."""
        (ROOT / "docs" / "measurements" / "gpu.md").write_text(self.text(machine))


def main() -> int:
    """Runs every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-gpu", action="store_true", help="write that nothing was run")
    without = parser.parse_args().without_gpu
    machine = [] if without else gpus()
    if not machine and not without:
        print("no GPU here: nvidia-smi lists none, so nothing was run", file=sys.stderr)
        return 2
    results = Results()
    for part in all_parts(len(machine)):
        results.run(part)
    results.write(machine)
    return int(results.failed)


if __name__ == "__main__":
    sys.exit(main())
