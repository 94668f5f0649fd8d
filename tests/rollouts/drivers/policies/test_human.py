"""A person at the terminal."""

import io
import sys

import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.play import orders_of, play_episodes
from abreast.rollouts.drivers.policies.human import HumanPolicy
from rollout_helpers import settings


def roll(typed, monkeypatch, tag="varied", episodes=3):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    ended = []
    with EnvStateManager(settings([tag], [4], use_multiprocessing=False)) as manager:
        told = play_episodes(manager, HumanPolicy(), ended.append, orders_of(manager, episodes))
    return ended, told


def test_lines_are_turns_and_the_prompt_and_the_results_are_shown(monkeypatch, capsys):
    ended, told = roll("Go\n\nstay || GO\n<answer>Go</answer>\nGo\nGo\n", monkeypatch)
    assert told is None and [each.number for each in ended] == [0, 1, 2]  # one after the other
    assert ended[0].answers == [["Go"]] and ended[1].answers == [["stay", "GO"]]
    assert ended[2].answers == ["<answer>Go</answer>", ["Go"], ["Go"]]
    printed = capsys.readouterr().out
    assert "==== episode 0: varied, seed 10000" in printed and "seed 10000, turn 0 of 1." in printed
    assert "actions (Go, Stay), with || between them; end with Ctrl-D" in printed
    assert "==== episode 2 is over: a success, score 3\n" in printed
    assert "actions left: 9\nactions (Go" in printed


def test_unknown_actions_are_named_with_what_they_cost(monkeypatch, capsys):
    ended, _ = roll("Go\nfly || GO\nstay\n", monkeypatch, episodes=2)
    printed = capsys.readouterr().out
    assert (
        ended[1].cache["penalty"] == -0.1
        and "reward 1\n'fly' was not executed: it is no action of this environment.\npenalty -0.1\n" in printed
    )
    assert "==== episode 1 is over: a success, score 0.9 (reward 1, penalty -0.1)" in printed


def test_where_one_action_is_allowed_no_separator_is_asked_for(monkeypatch, capsys):
    roll("A\n" * 3, monkeypatch, tag="Bandit", episodes=1)
    printed = capsys.readouterr().out
    assert "an action (" in printed and "||" not in printed


def test_the_end_of_the_input_ends_the_rollout_politely(monkeypatch):
    ended, told = roll("Go\nGo\n", monkeypatch)
    assert told == "the input ended" and [each.number for each in ended] == [0]


def test_actions_without_names_are_whole_lines(monkeypatch):
    ended, _ = roll("(1 + 2) || 3\n" * 20, monkeypatch, tag="Countdown", episodes=1)
    assert ended[0].answers[0] == ["(1 + 2) || 3"]


def test_ctrl_c_interrupts_the_question(monkeypatch):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    with pytest.raises(KeyboardInterrupt):
        roll("", monkeypatch)
