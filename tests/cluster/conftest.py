"""What tests of workers on nodes share."""

import pytest

from abreast.cluster.backend import RayBackend


@pytest.fixture
def hosts(monkeypatch):
    """The workers on nodes that were started last, by name."""
    started, start = {}, RayBackend.start

    def note(backend, number, spec, wake):
        started[spec.name] = start(backend, number, spec, wake)
        return started[spec.name]

    monkeypatch.setattr(RayBackend, "start", note)
    return started
