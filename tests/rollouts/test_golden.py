"""Episodes come out as they were recorded (golden.py), wherever they are played and whatever happens to the workers."""

import json

import pytest

from .golden import FILE, TAGS, WAYS

pytestmark = pytest.mark.xdist_group("rollouts")
RECORDED = json.loads(FILE.read_text())


@pytest.mark.parametrize("tag", TAGS)
def test_episodes_come_out_as_they_were_recorded(tag):
    assert {way: play(tag) for way, play in WAYS.items()} == RECORDED[tag]
