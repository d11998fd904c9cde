"""Fixtures for tests of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the configuration of a module of tests, its ``TEXT``, as a file."""
    found = tmp_path / "job.yaml"
    found.write_text(request.module.TEXT, encoding="utf-8")
    return found
