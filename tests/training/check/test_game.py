"""`abreast check` of games: each way to break the contract is found by its own check, and by none before."""

import pytest

from abreast import checking
from abreast.games import find_game
from abreast.training import Experiment
from abreast.training.check import check_game

# (game, the check that refuses it, what it says)
UNFIT = [
    ("RewardsWithNaN", "episode", "agent 0 (NaNBody), turn 1, action"),
    ("ObservesHalves", "episode", "agent 0 observes float64 of shape (3, 3, 4)"),
    ("ObservesInfinity", "episode", "agent 0 observes inf: let `pov` return finite numbers."),
    ("RaisesInAct", "episode", "it raised ZeroDivisionError: a villain divides by zero (unfit_games.py, line"),
    (
        "HasAModelForThreeActions",
        "episode",
        "agent 0 (Body) has 4 actions, but its model was made for 3: in setup_agents,",
    ),
    ("HasUnmadeAgents", "episode", "UnmadeBody.__init__ does not call super().__init__(…): add that call"),
    ("HasAnUnmadeWorld", "episode", "UnmadeWorld.__init__ does not call super().__init__(…)"),
    ("HasAWorldThatIsNeverEmptied", "episode", "NeverEmptied.create_world does not call super().create_world(…)"),
    ("IsNotMade", "episode", "IsNotMade.__init__ does not call super().__init__(…)"),
    ("ScatteredTooManyKinds", "episode", "42 entities (40 Apple, 2 Body) need 42 free cells, but the 6x6 world has 36"),
    ("HasNoAgents", "episode", "has no agents: fill self.agents in setup_agents."),
    ("DrawsInAct", "global random state", "playing it (reset, turns) changed the state of the module random"),
    ("DrawsInPopulate", "global random state", "populate_environment) changed the state of numpy.random"),
    ("DrawsInSetup", "global random state", "populate_environment) changed the state of torch"),
    ("DrawsInCreateWorld", "global random state", "populate_environment) changed the state of the module random"),
    ("DrawsInMakeWorld", "global random state", "make_world changed the state of the module random"),
    ("DrawsInInit", "global random state", "__init__ changed the state of the module random"),
    ("UsesTheClock", "seed", "two environments with the same seed and the same actions differ in the observation of"),
    ("CountsInTheModule", "seed", "While it is played, unfit_games.TURNS_EVER changes."),
    ("CannotBeCopied", "lanes", "LockedWorld.lock (lock) cannot be copied for another lane"),
    ("SharesAListOfTheClass", "lanes", "While it is played, SharesAListOfTheClass.taken changes."),
    ("SharesAListOfTheModule", "lanes", "While it is played, unfit_games.TAKEN changes."),
    ("SharesANumberOfTheClass", "lanes", "While it is played, SharesANumberOfTheClass.steps changes."),
    ("KeepsItsLevelElsewhere", "state", "plays on differently, in the reward of agent 0 at its step 1"),
    ("HoldsALock", "state", "HoldsALock.lock (lock) cannot be kept in a file"),
    ("CannotBeSent", "several actors", "cannot be built in another process"),
    ("UsesHash", "several actors", "plays differently in the reward of agent 0 at its step 1: do not depend on hash()"),
    ("ScoresByItself", "late rewards", "after 1 turn(s) in the turn order sequential, agent 0 has a score of 1, but"),
    ("ForgetsPartOfItsReward", "late rewards", "let `act` return its reward"),
    (
        "HasAModelThatKnowsItsProcess",
        "training",
        "pid of the model of agent 0, pid of the model of agent 1 is not what",
    ),
]


@pytest.fixture
def plays_at_home(monkeypatch):
    """Other processes are not the point, and take their time."""
    monkeypatch.setattr(checking, "elsewhere", lambda function, *arguments: function(*arguments))


@pytest.fixture
def learns_at_home(monkeypatch):
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)


@pytest.fixture
def at_home(plays_at_home, learns_at_home):
    """Neither."""


@pytest.mark.parametrize(("name", "check", "says"), UNFIT, ids=[row[0] for row in UNFIT])
def test_each_fault_is_found_by_its_own_check(name, check, says, request):
    if name != "UsesHash":
        request.getfixturevalue("plays_at_home")
    if name != "HasAModelThatKnowsItsProcess":
        request.getfixturevalue("learns_at_home")
    wrong = next(verdict for verdict in check_game(find_game(f"unfit_games:{name}")) if verdict.outcome == "wrong")
    assert wrong.check == check
    assert says in wrong.remark


def test_a_game_that_keeps_the_contract_passes_in_other_processes_too():
    assert {verdict.outcome for verdict in check_game(find_game("unfit_games:Fit"))} == {"ok"}


@pytest.mark.parametrize("name", ["tag", "cleanup", "staghunt", "own_game:Garden"])  # treasurehunt: test_docs.py
def test_the_games_that_ship_keep_the_contract(name, at_home):
    verdicts = list(check_game(find_game(name)))
    assert {verdict.outcome for verdict in verdicts} == {"ok"}, verdicts


def test_a_game_without_chance_passes_with_a_remark(at_home):
    verdicts = {verdict.check: verdict for verdict in check_game(find_game("unfit_games:NothingRandom"))}
    assert {verdict.outcome for verdict in verdicts.values()} == {"ok"}
    assert "Other seeds look alike: that is right if nothing in it is random" in verdicts["seed"].remark


def test_what_changes_in_a_class_is_named_though_nothing_depends_on_it(at_home):
    verdicts = {verdict.check: verdict for verdict in check_game(find_game("unfit_games:CountsInTheClassOfItsAgents"))}
    assert {name for name, verdict in verdicts.items() if verdict.outcome != "ok"} == {"lanes"}
    assert verdicts["lanes"].outcome == "note"
    assert "While it is played, CountingBody.visited changes." in verdicts["lanes"].remark


def test_what_follows_from_another_fault_is_not_judged(at_home):
    verdicts = {verdict.check: verdict for verdict in check_game(find_game("unfit_games:DrawsInAct"))}
    assert verdicts["seed"].remark == "not checked: repair 'global random state' first"
