"""The configurations of ``benchmarks.job``, which no other test reads: a change of their format stops a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import adult
from benchmarks.job import VARIANTS, settings_of, variables_of


@pytest.mark.skipif(not adult.DATA.is_dir(), reason=f"UCI Adult is not here: {adult.DATA}")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_configuration_of_each_job_is_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in variables_of(VARIANTS[name], 100, tmp_path, str(tmp_path / "output")).items():
        monkeypatch.setenv(variable, value)
    settings = settings_of(VARIANTS[name], 100)
    assert settings.privacy.k == (12 if VARIANTS[name].live else 10)
