"""`abreast check` of models: each way to break the contract is found by its own check, and by none before."""

import pytest

import unfit_models
from abreast.models import ALGORITHMS
from abreast.training import Experiment
from abreast.training.check import check_model
from strangers import models as strangers

# (model, the check that refuses it, what it says)
UNFIT = [
    ("SeededByTheClock", "building", "two models with the same seed differ in dice: seed generators from what `setup`"),
    ("KnowsNoLanesWhenBuilt", "building", "its constructor does not take (observation, n_actions, config, seed, lanes"),
    ("HasPlainSettings", "building", "make it a subclass of abreast.models.ModelConfig"),
    ("RaisesInSetup", "building", "it raised ZeroDivisionError: a villain divides by zero (unfit_models.py, line"),
    (
        "IsNotMade",
        "building",
        "IsNotMade.__init__ does not call super().__init__(…): add that call, as its first line.",
    ),
    ("IsNotSetUp", "building", "IsNotSetUp.setup does not call super().setup(…)"),
    ("IsEvaluatedOtherwise", "building", "its EVALUATION is 'sampled': expected 'greedy' or 'explore'"),
    ("CannotLearn", "building", "it has no train_step: define train_step(self), which returns None if"),
    ("SaysTooLittle", "building", "the network of its make_network gives (2, 2) for 2 rows, expected (2, 4)"),
    ("SaysTooMuch", "building", "the network of its make_network gives (2, 9) for 2 rows, expected (2, 4)"),
    (
        "SaysColumns",
        "building",
        "the `values` of its network have the shape (2, 1) for 2 rows, expected (2,), a number",
    ),
    (
        "SeesTooLittle",
        "building",
        "raised RuntimeError for rows of 150 numbers (2 frames of (5, 5, 3), flattened): mat1 and",
    ),
    ("CannotChoose", "building", "it has no take_action: define take_action(self, state, lane=0), which returns the"),
    (
        "BuildsHalfAModule",
        "building",
        "BuildsHalfAModule.make_network failed: it raised AttributeError: cannot assign module before Module.__init__() call"
        " (unfit_models.py, line ",
    ),
    ("BuildsNothing", "building", "BuildsNothing.make_network returned None: expected a torch.nn.Module."),
    (
        "ReadsNonsense",
        "building",
        "it raised JSONDecodeError: Expecting value: line 1 column 1 (char 0) (unfit_models.py,",
    ),
    ("HasNoChances", "building", "'Linear' object has no attribute 'log_chances'"),
    ("HasItsOwnMemory", "building", "its memory is a unfit_models.OwnBuffer"),
    ("ChoosesHalves", "actions", "take_action returned 2.5: expected a whole number from 0 to 3"),
    ("ChoosesTooFar", "actions", "it chose 4: choose a whole number from 0 to n_actions - 1, here 3."),
    (
        "ChoosesWithoutLane",
        "actions",
        "its take_action does not take the lane, but there are 2: define take_action(self",
    ),
    ("RemembersWithoutLane", "actions", "its remember does not take the lane"),
    ("RemembersNothing", "memory", "after [1, 0] steps in lanes 0 and 1, `remember` has written [0, 0] rows"),
    ("RemembersTwice", "memory", "`remember` has written [2, 0] rows"),
    ("RemembersInTheFirstLane", "memory", "after [1, 1] steps in lanes 0 and 1, `remember` has written [2, 0] rows"),
    ("LosesNaN", "learning", "train_step returned nan: return finite numbers"),
    ("LosesText", "learning", "the figure 'loss' of LosesText is 'a lot': expected a name with a number"),
    (
        "LosesRows",
        "learning",
        "LosesRows.loss_of returned a loss of shape (8,), expected one number: reduce it over the b",
    ),
    ("ForgetsToStep", "learning", "but nothing of the model has changed"),
    ("CountsTwice", "learning", "train_step has raised `updates` by 2"),
    ("HasOneHistory", "lanes", "what it chooses in a lane depends on what happens in another"),
    ("ChoosesFromNumpy", "global random state", "the epoch actions) changed the state of numpy.random"),
    ("DrawsAtTheEnd", "global random state", "the epoch actions) changed the state of torch"),
    ("CountsOnBothSides", "ownership", "CountsOnBothSides changes rows in choosing and in learning"),
    ("HoldsALock", "ownership", "its attribute lock (lock) cannot be sent or kept"),
    ("HoldsALockBesideItsNetwork", "ownership", "its attribute lock (lock) cannot be sent or kept"),
    (
        "LearnsByProcess",
        "other processes",
        "processes, pid of the model of agent 0 is not what it is in the sequential run",
    ),
    ("CannotBeSaved", "files", "it raised OSError: no file for this one (unfit_models.py, line"),
]
IN_PROCESSES = {"LearnsByProcess"}


@pytest.fixture
def at_home(monkeypatch):
    """Other processes are not the point, and take their time."""
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)


@pytest.mark.parametrize(("name", "check", "says"), UNFIT, ids=[row[0] for row in UNFIT])
def test_each_fault_is_found_by_its_own_check(name, check, says, request):
    if name not in IN_PROCESSES:
        request.getfixturevalue("at_home")
    wrong = next(verdict for verdict in check_model(getattr(unfit_models, name)) if verdict.outcome == "wrong")
    assert wrong.check == check
    assert says in wrong.remark


@pytest.mark.parametrize(
    "kind",
    [
        *(ALGORITHMS[name] for name in ALGORITHMS if name != "dqn"),
        unfit_models.HasSettings,
        unfit_models.KeepsATable,
        strangers.Reinforce,
    ],
)
def test_a_model_that_keeps_the_contract_passes(kind, at_home):
    verdicts = list(check_model(kind))
    assert {verdict.outcome for verdict in verdicts} == {"ok"}, verdicts


@pytest.mark.parametrize("kind", [unfit_models.Fit, ALGORITHMS["dqn"]])
def test_a_model_that_keeps_the_contract_passes_in_other_processes_too(kind):
    assert {verdict.outcome for verdict in check_model(kind)} == {"ok"}


@pytest.mark.parametrize(
    ("name", "check", "says"),
    [
        ("LearnsNothing", "lanes", "it always chose the same action, so an influence between lanes could not be seen"),
        ("LearnsNothing", "learning", "right only for a model that does not learn"),
        ("DropsOut", "global random state", "train_step draws from torch: a run seeds it"),
    ],
)
def test_what_may_be_right_is_remarked_upon(name, check, says, at_home):
    verdicts = {verdict.check: verdict for verdict in check_model(getattr(unfit_models, name))}
    assert {verdict.outcome for verdict in verdicts.values()} == {"ok"}, verdicts
    assert says in verdicts[check].remark
