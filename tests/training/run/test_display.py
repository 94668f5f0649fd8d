"""The live display."""

import io
import sys

from rich.console import Console

from abreast.games import Game
from abreast.training.run.display import ProgressDisplay
from fakes import small_game
from own_game import Garden


def shown(display, console):
    with console.capture() as captured:
        console.print(display.draw())
    return captured.get()


def test_the_display_shows_the_health_of_the_learners():
    env = small_game("model.algorithm=dqn", "multiprocessing.workers=threads")
    record = env.run_experiment_mp(animate=False, logging=False).epochs[-1]
    display = ProgressDisplay(3)
    display.show(record)
    text = shown(display, Console(width=160))
    assert "versions behind: 0" in text and "updates a step" in text and "waits: actor" in text


def lines_of(record, capsys, epochs=1):
    """What is shown in a terminal, line by line and word by word, and the plain line without one."""
    console, display = Console(width=200), ProgressDisplay(epochs)
    for _ in range(epochs):
        display.show(record)
    table = [line.split() for line in shown(display, console).splitlines()]
    return table, capsys.readouterr().err.splitlines()[-1]


def test_each_agent_has_its_own_figures_and_epsilon_is_shown_where_one_has_it(capsys):
    env = small_game("model.algorithm=ppo", "model.per_agent={1: {algorithm: dqn}}")
    record = env.run_experiment(animate=False, logging=False).epochs[-1]
    (_, first, second, everyone), plain = lines_of(record, capsys)
    one, other = record["learning"]
    assert f" loss {one['loss']:.3g} entropy {one['entropy']:.3g}" in " ".join(first)
    assert f" loss {other['loss']:.3g} mean_value {other['mean_value']:.3g}" in " ".join(second)
    assert "loss" not in everyone and everyone[-2:] == ["epsilon", f"{record['epsilon']:.3f}"]
    assert f" loss {one['loss']:.3g}  agent 1 " in plain and f" loss {other['loss']:.3g}  " in plain
    assert "reward of the epoch  epsilon " in plain


def test_ppo_has_no_epsilon_and_a_mean_is_called_one(capsys):
    record = small_game("model.algorithm=ppo").run_experiment(animate=False, logging=False).epochs[-1]
    table, plain = lines_of(record, capsys, epochs=3)
    assert not any("epsilon" in line for line in table) and "epsilon" not in plain
    assert " ".join(table[-1]).endswith("mean reward of 3 epochs") and "  mean reward of 3 epochs " in plain


def test_what_is_not_known_of_an_agent_is_left_out_or_named(capsys):
    record = small_game("model.algorithm=dqn").run_experiment(animate=False, logging=False).epochs[-1]
    record = {**record, "learning": [{}, {"loss": None}], "loss_per_agent": [None, None]}
    (_, first, second, _), plain = lines_of(record, capsys)
    assert "loss" not in first and second[-3:] == ["loss", "not", "finite"] and plain.count("loss not finite") == 1


def test_the_display_shows_a_games_own_figures_in_the_mean_of_the_epochs_that_have_them(capsys):
    env = Game(Garden).build(Game(Garden).configure())
    records = env.run_experiment(animate=False, logging=False).epochs
    for record, rate in zip(records, (0.25, None, 0.75), strict=True):
        record["metrics"] = {"rate [of it]": rate}
    display = ProgressDisplay(3)
    for record in records:
        display.show(record)
    assert "  rate [of it] 0.5  " in capsys.readouterr().err.splitlines()[-1]
    assert shown(display, Console(width=160)).splitlines()[-1].endswith("rate [of it] 0.5")


def test_what_is_said_when_a_run_is_stopped_stays_below_the_figures(monkeypatch):
    record = small_game().run_experiment(animate=False, logging=False).epochs[-1]
    assert not ProgressDisplay(3).show_note("Stopping.")  # no terminal: it has to be printed
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = ProgressDisplay(3)
    with display:
        assert display.show_note("Stopping.")
        display.show(record)
        *_, figures, note = shown(display, Console(width=80)).splitlines()
    assert "all" in figures and "reward of the epoch" in figures and note == "Stopping."


def test_a_run_that_steps_end_first_counts_steps(capsys):
    display = ProgressDisplay(1000, max_steps=100)
    with display:
        for number, steps in enumerate([20, 70, 110], 1):
            record = {**RECORD_OF_STEPS, "epoch": number - 1, "steps": steps}
            record["time"] = {"elapsed_s": 10.0 * number, "agent_steps_per_s": 7.0}
            display.show(record)
            shown = display.figures()
            assert (shown.unit, shown.done, shown.total) == ("step", min(steps, 100), 100)
    assert [line.split()[:2] for line in capsys.readouterr().err.splitlines()] == [
        ["step", "20/100"],
        ["step", "70/100"],
        ["step", "100/100"],
    ]


RECORD_OF_STEPS = {
    "reward": 1.0, "reward_per_agent": [1.0], "loss": None, "loss_per_agent": [None], "learning": [{}], "epsilon": 0.0,
    "agent_steps": 0, "updates": 0, "updates_per_agent_step": 0.0,
}  # fmt: skip
