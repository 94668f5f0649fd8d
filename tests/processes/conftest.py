"""Fixtures of these tests."""

import pytest

from processes.teams import teams


@pytest.fixture
def make_team():
    """Makes teams, which are killed at the end."""
    yield from teams()
