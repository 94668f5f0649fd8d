"""Observations as texts."""

import numpy as np
import pytest

from abreast.rollouts.adapters.observations import text_of, without_escapes


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        ("as it is\n", "as it is\n"),
        (7, "7"),
        (np.int64(7), "7"),
        (0.1 + 0.2, "0.3"),
        (np.float32(1 / 3), "0.333333"),
        ((14, np.int64(10), 0), "(14, 10, 0)"),
        ([1, "a"], "[1, a]"),
        (np.array([0.5, -1.0, 1e-9, np.inf], dtype=np.float32), "[0.5, -1, 1e-09, inf]"),
        (np.array([[1, 2], [3, 4]]), "[[1, 2],\n [3, 4]]"),
        (np.array([True, False]), "[True, False]"),
        (np.array(3.25), "3.25"),
        ({"b": 1, "a": {"x": 2.5, "y": np.array([1, 2])}}, "b: 1\na.x: 2.5\na.y: [1, 2]"),
        ({}, ""),
        (None, "None"),
    ],
)
def test_an_observation_reads_well(observation, text):
    assert text_of(observation) == text


def test_print_options_of_the_user_change_nothing():
    values = np.linspace(0, 1, 2000)
    before = text_of(values[:9]), text_of(values)
    with np.printoptions(precision=1, threshold=5, linewidth=10, suppress=True, formatter={"all": lambda number: "?"}):
        assert (text_of(values[:9]), text_of(values)) == before
    assert "..." in before[1] and "\n" not in before[0]


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        ("\n\x1b[41mS\x1b[0mFFF", "\n<red:S>FFF"),
        ("\x1b[34;1mB\x1b[0m|\x1b[43m \x1b[0m|\x1b[35mR\x1b[0m", "<blue:B>|<yellow: >|<magenta:R>"),
        ("\x1b[1mbold\x1b[0m and \x1b[2J\x1b[Hplain", "bold and plain"),
        ("\x1b[92mbright", "<green:bright>"),
        ("no colour [31m", "no colour [31m"),
    ],
)
def test_colours_are_told_in_words(drawn, text):
    assert without_escapes(drawn) == text
