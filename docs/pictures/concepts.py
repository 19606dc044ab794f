"""Draws the pictures of docs/concepts: python docs/pictures/concepts.py."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from figure import Figure  # noqa: E402


def coordinator() -> str:
    """Reports of ready tensors go up a tree; one order comes down."""
    figure = Figure(
        760, 330, "Ranks report ready tensors up a tree; the coordinator sends one order"
    )
    figure.box(20, 150, 340, 165, kind="group")
    figure.box(400, 150, 340, 165, kind="group")
    figure.text(40, 305, "host 1", "small", "start")
    figure.text(420, 305, "host 2", "small", "start")
    for index, tensors in enumerate(["A, C, B", "B, A, C", "A, B, C", "C, A"]):
        x = 45 + 160 * index + (60 if index > 1 else 0)
        figure.box(x, 215, 130, 62)
        figure.text(x + 65, 238, f"rank {index}", "strong")
        figure.text(x + 65, 262, f"has {tensors}", "code")
    figure.box(290, 20, 180, 62, kind="a")
    figure.text(380, 45, "coordinator (rank 0)", "strong")
    figure.text(380, 68, "on all ranks: A, C", "code")
    figure.arrow(110, 213, 300, 88)
    figure.arrow(270, 213, 345, 88)
    figure.arrow(490, 213, 440, 88)
    figure.arrow(655, 213, 655, 190, 545, 190, 520, 209)
    figure.text(190, 120, "ready", "small", "end")
    figure.text(490, 125, "ready on all ranks of host 2: A, C", "small", "start")
    figure.text(490, 45, "then the order for all ranks: A, C", "small", "start")
    figure.text(490, 65, "B waits for rank 3", "small", "start")
    return figure.svg()


def fusion() -> str:
    """Agreed tensors become bundles; a large one is cut into pieces."""
    figure = Figure(760, 250, "Small tensors are fused into bundles; a large tensor is cut")
    figure.text(20, 32, "agreed tensors", "strong", "start")
    widths = [("bias", 40, "a"), ("weight", 90, "a"), ("norm", 50, "a"), ("weight", 110, "a")]
    x = 20.0
    for name, width, kind in widths:
        figure.box(x, 45, width, 40, name, kind)
        x += width + 12
    figure.box(x, 45, 330, 40, "embedding", "b")
    figure.arrow(190, 95, 190, 130)
    figure.text(200, 118, "fused", "small", "start")
    figure.arrow(535, 95, 535, 130)
    figure.text(545, 118, "cut into pieces", "small", "start")
    figure.text(20, 160, "what moves", "strong", "start")
    figure.box(20, 170, 290, 46, "one bundle", "a")
    for piece in range(3):
        figure.box(358 + 118 * piece, 170, 94, 46, f"piece {piece + 1}", "b")
    figure.arrow(335, 240, 335, 190, kind="accent")
    figure.arrow(464, 240, 464, 190, kind="accent")
    figure.arrow(582, 240, 582, 190, kind="accent")
    figure.text(600, 238, "urgent tensors pass here", "small", "start")
    return figure.svg()


def ring() -> str:
    """Four ranks in a ring; the first step of the reduce-scatter."""
    figure = Figure(760, 240, "Ring allreduce of four ranks: each sends one chunk to its neighbour")
    kinds = ["a", "b", "c", "d"]
    for rank in range(4):
        x = 30 + 185 * rank
        figure.text(x + 65, 36, f"rank {rank}", "strong")
        for chunk in range(4):
            figure.box(x + 33 * chunk, 50, 31, 36, str(chunk), kinds[chunk])
        if rank < 3:
            sent = x + 33 * ((rank - 1) % 4) + 15
            figure.curve(sent, 88, x + 185 + 33 * ((rank - 1) % 4) + 15, 88, -45)
    figure.text(380, 150, "step 1: rank r sends chunk r - 1 to rank r + 1, which adds it", "small")
    figure.arrow(666, 88, 666, 178, 111, 178, 111, 94)
    figure.text(380, 196, "the last rank sends to the first", "small")
    figure.text(380, 222, "after n - 1 steps rank r has the whole sum of chunk r", "small")
    return figure.svg()


def tree() -> str:
    """A binomial tree of eight ranks: up, then down."""
    figure = Figure(760, 260, "Tree allreduce of eight ranks: sums go up, the result comes down")
    xs = [50 + 94 * rank for rank in range(8)]
    levels = {0: 40, 4: 95, 2: 150, 6: 150, 1: 205, 3: 205, 5: 205, 7: 205}
    parents = {1: 0, 3: 2, 5: 4, 7: 6, 2: 0, 6: 4, 4: 0}
    for rank, parent in parents.items():
        figure.arrow(xs[rank], levels[rank] - 18, xs[parent] + 10, levels[parent] + 20)
    for rank, y in levels.items():
        figure.box(xs[rank] - 26, y - 18, 52, 36, str(rank), "a" if rank == 0 else "")
    figure.text(520, 45, "sums go up: 3 steps for 8 ranks", "small", "start")
    figure.text(520, 65, "the result comes down the same way", "small", "start")
    return figure.svg()


def hierarchical() -> str:
    """Two hosts of two ranks: shared memory inside, one chunk each between."""
    figure = Figure(760, 350, "Hierarchical allreduce: shared memory inside hosts, chunks between")
    for host in range(2):
        x = 30 + 380 * host
        figure.box(x, 20, 320, 312, kind="group")
        figure.text(x + 15, 45, f"host {host + 1}", "strong", "start")
        for local in range(2):
            left = x + 20 + 150 * local
            figure.text(left + 65, 72, f"rank {2 * host + local}")
            figure.box(left, 82, 62, 34, "", "a")
            figure.box(left + 66, 82, 62, 34, "", "b")
            figure.box(left + 20, 172, 90, 36, f"sum {local}", "ab"[local])
            figure.box(left, 282, 62, 34, "", "a")
            figure.box(left + 66, 282, 62, 34, "", "b")
            figure.arrow(left + 64, 210, left + 64, 277)
        for chunk in range(2):
            for local in range(2):
                start = x + 20 + 150 * local + 31 + 66 * chunk
                figure.arrow(start, 118, x + 85 + 150 * chunk, 168)
    for local in range(2):
        low, left = 228 + 20 * local, 85 + 150 * local
        figure.arrow(left, 208, left, low, left + 380, low, left + 380, 213, kind="accent")
        figure.arrow(left + 380, low, left, low, left, 213, kind="accent")
    figure.text(380, 145, "1. reduce", "small")
    figure.text(380, 196, "2. exchange", "small")
    figure.text(380, 275, "3. gather", "small")
    return figure.svg()


def error_feedback() -> str:
    """The loop of the residual."""
    figure = Figure(760, 240, "Error feedback: the residual is added to the next gradient")
    figure.box(30, 60, 120, 50, "gradient g", "a")
    figure.box(215, 60, 60, 50, "+")
    figure.box(340, 60, 110, 50, "encode")
    figure.box(560, 60, 170, 50, "sent, averaged", "c")
    figure.box(340, 160, 110, 50, "residual e", "b")
    figure.arrow(152, 85, 209, 85)
    figure.arrow(277, 85, 334, 85)
    figure.text(305, 75, "p", "code")
    figure.arrow(452, 85, 554, 85)
    figure.text(500, 75, "c", "code")
    figure.arrow(395, 112, 395, 154)
    figure.text(408, 140, "e = p - decode(c)", "code", "start")
    figure.arrow(338, 185, 245, 185, 245, 116)
    figure.text(290, 205, "next step", "small")
    return figure.svg()


def sharded() -> str:
    """One step of a sharded optimizer on two ranks."""
    figure = Figure(
        760, 300, "Each rank updates its half of the parameters, with its half of state"
    )
    for rank in range(2):
        top = 25 + 140 * rank
        figure.box(20, top, 720, 115, kind="group")
        figure.text(35, top + 24, f"rank {rank}", "strong", "start")
        own = "ab"[rank]
        figure.text(85, top + 45, "gradients", "small")
        figure.box(35, top + 55, 50, 40, "", "a")
        figure.box(85, top + 55, 50, 40, "", "b")
        figure.text(285, top + 45, "average", "small")
        figure.box(260, top + 55, 50, 40, "", own)
        figure.text(425, top + 45, "state", "small")
        figure.box(375, top + 55, 50, 40, "", own)
        figure.box(430, top + 55, 50, 40, "", own)
        figure.arrow(312, top + 75, 370, top + 75)
        figure.text(665, top + 45, "parameters", "small")
        figure.box(615, top + 55, 50, 40, "", "a")
        figure.box(665, top + 55, 50, 40, "", "b")
        figure.arrow(140, top + 75, 255, top + 75, kind="accent")
        figure.arrow(485, top + 75, 610, top + 75, kind="accent")
    figure.arrow(135, 122, 255, 232, kind="accent")
    figure.arrow(135, 212, 255, 108, kind="accent")
    figure.arrow(485, 108, 610, 208, kind="accent")
    figure.arrow(485, 232, 610, 126, kind="accent")
    figure.text(197, 50, "reduce-scatter", "small")
    figure.text(547, 50, "allgather", "small")
    return figure.svg()


def pictures() -> dict[str, str]:
    """Returns each picture's text by its file name."""
    return {
        "coordinator.svg": coordinator(),
        "fusion.svg": fusion(),
        "ring.svg": ring(),
        "tree.svg": tree(),
        "hierarchical.svg": hierarchical(),
        "error-feedback.svg": error_feedback(),
        "sharded.svg": sharded(),
    }


if __name__ == "__main__":
    for file_name, text in pictures().items():
        (HERE / file_name).write_text(text)
