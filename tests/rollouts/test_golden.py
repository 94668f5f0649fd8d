"""Episodes come out as they were recorded (golden.py), wherever they are played and whatever happens to the workers.

Every tag is played in the main process and in two of the other ways, every way with some tags; with ABREAST_CHAOS=1, every
tag in every way.
"""

import json
import os

import pytest

from .golden import FILE, TAGS, WAYS

FULL = os.environ.get("ABREAST_CHAOS") == "1"
pytestmark = pytest.mark.xdist_group("rollouts: golden")
RECORDED = json.loads(FILE.read_text())
HERE, *ELSEWHERE = WAYS


def ways_of(number):
    """A cover: the second way of a tag is three after its first, so that no two neighbours are played alike."""
    count = len(ELSEWHERE)
    return list(WAYS) if FULL else [HERE, ELSEWHERE[number % count], ELSEWHERE[(number + 3) % count]]


@pytest.mark.parametrize(("number", "tag"), [*enumerate(TAGS)], ids=list(TAGS))
def test_episodes_come_out_as_they_were_recorded(number, tag):
    ways = ways_of(number)
    assert {way: WAYS[way](tag) for way in ways} == {way: RECORDED[tag][way] for way in ways}


def test_every_way_is_played_with_three_tags_or_more():
    played = [way for number in range(len(TAGS)) for way in ways_of(number)]
    assert min(played.count(way) for way in WAYS) >= 3
