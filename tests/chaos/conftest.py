"""What several of these tests need."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def short_path():
    """An empty folder for TMPDIR: the names of sockets are made from it, and those have room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="a") as folder:
        yield Path(folder)
