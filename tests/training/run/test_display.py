"""The live display."""

from rich.console import Console

from abreast.training.run.display import ProgressDisplay
from fakes import small_game


def test_the_display_shows_the_health_of_the_learners():
    env = small_game("model.algorithm=dqn", "multiprocessing.workers=threads")
    record = env.run_experiment_mp(animate=False, logging=False).epochs[-1]
    console = Console(width=160)
    with console.capture() as shown:
        display = ProgressDisplay(3)
        display.show(record)
        console.print(display._table(record))
    text = shown.get()
    assert "0 restarts" in text and "versions behind:" in text
    assert "updates a step" in text and "waits: actor" in text
