"""The volume of tests that was asked for, as in volume.h."""

from __future__ import annotations

import os

import pytest

IS_ALL = os.environ.get("RONDE_TEST_VOLUME") == "all"
ALL = pytest.mark.skipif(not IS_ALL, reason="tests/run.sh --all")
