"""The walks in ARCHITECTURE.md name functions that exist, and are short."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECTION = re.search(r"## Two walks\n(.*?)\n## ", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)[1]
STEPS = re.findall(r"^(\d+)\. `([\w/]+)\.py: ([\w.]+)`", SECTION, re.MULTILINE)
MOST_STEPS = 8


@pytest.mark.parametrize(("number", "file", "function"), STEPS, ids=[": ".join(step[1:]) for step in STEPS])
def test_every_step_is_there(number, file, function):
    thing = importlib.import_module(f"abreast.{file.replace('/', '.')}")
    for name in function.split("."):
        thing = getattr(thing, name)
    assert callable(thing) and int(number) <= MOST_STEPS


def test_there_are_three_walks():
    assert [number for number, *_ in STEPS].count("1") == 3
