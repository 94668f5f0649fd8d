"""Nothing grows while rollouts go on: 100,000 turns with ABREAST_CHAOS=1, 3,000 otherwise, of single episodes."""

import os

import pytest

from chaos.growth_rollouts import KINDS, grow

FULL = os.environ.get("ABREAST_CHAOS") == "1"
pytestmark = pytest.mark.xdist_group("system")


@pytest.mark.parametrize("kind", KINDS if FULL else ("single",))
def test_memory_and_descriptors_stay_as_they_are(kind):
    samples = grow(kind, turns=100_000 if FULL else 3_000)
    assert len(samples["turns"]) >= 5


def test_what_is_kept_in_every_turn_is_found():
    with pytest.raises(AssertionError, match="blocks a turn are kept"):
        grow("main", turns=1_500, leak=True)
