"""The colours of the report's page stand out, in light and in dark (WCAG 2.2, 1.4.3 and 1.4.11)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = Path(__file__).parents[3] / "timeline" / "report" / "page.css"
TEXTS, PICTURES = ("fore", "soft", "link"), tuple(f"p{i}" for i in range(6))
LEAST = {**dict.fromkeys(TEXTS, 4.5), **dict.fromkeys(PICTURES, 3.0)}


def colours():
    """Those of the light and of the dark scheme, by name."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS.read_text(), re.DOTALL)[:2]
    return [dict(re.findall(r"--(\w+): #([0-9a-f]{6});", scheme)) for scheme in (light, dark)]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("behind", ["back", "panel"])
def test_texts_and_pictures_stand_out(scheme, behind):
    known = colours()[scheme]
    found = {name: contrast(known[name], known[behind]) for name in LEAST}
    assert {name: ratio for name, ratio in found.items() if ratio < LEAST[name]} == {}
