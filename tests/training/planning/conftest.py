"""Settings of these tests."""

import pytest

from abreast.training.planning import measuring


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A calibration on a busy machine may take its time."""
    monkeypatch.setattr(measuring, "PLAY_LIMIT_S", 30.0)
