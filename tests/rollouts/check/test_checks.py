"""`abreast check`: every way to break the contract is found by the check that is meant for it, and by no other."""

import re
import sys
from pathlib import Path

import pytest

import unfit_envs
from abreast.checking import judge
from abreast.errors import RolloutError
from abreast.rollouts.check import check_environment, checks, trial
from abreast.rollouts.check.trial import find_trial
from abreast.rollouts.registry import KINDS, find_kind

ADVICE = {"global random state", "pickling", "gymnasium"}
"""Checks whose findings make no rollout wrong."""
# (environment, the check that finds it, what it says)
UNFIT = [
    ("DrawsFromItsOwnStream", "seed", "two episodes with the same seed and actions differ at the start"),
    ("IsAlwaysTheSame", "seed", "9 different seeds gave the same episode"),
    ("LeavesSomethingOver", "seed", "something is left over from the episode before; set all state in reset"),
    (
        "SharesAList",
        "instances",
        "stepped alternately give other results than each one alone, after step 2",
    ),
    ("DrawsFromNumpyInStep", "global random state", "step changed the state of numpy.random"),
    ("SeedsNumpyInReset", "global random state", "reset changed the state of numpy.random"),
    (
        "DrawsFromRandomWhenMade",
        "global random state",
        "making it changed the state of the module random",
    ),
    ("SeedsTorchInReset", "global random state", "reset changed the state of torch"),
    ("CountsItsInstances", "info", "the values of 'board' in info differ between two episodes with the same seed"),
    (
        "TellsAnEnumeration",
        "pickling",
        "unfit_envs.End is none of the kinds that are sent between processes), so it is only",
    ),
    (
        "UsesHash",
        "other processes",
        "in another process, with the same seed and actions, it plays differently at the start",
    ),
    ("ChangesWhenLookedAt", "replay", "render must not change the state"),
    ("FROM_A_LAMBDA", "pickling", "not a lambda or a local one"),
    (
        "TellsNothing",
        "info",
        "the info of step has no success, action_is_valid, action_is_effective",
    ),
    ("TellsNumbers", "info", "info['success'] is 0.5: put it in, as True or False"),
    ("ShowsADict", "render", "what render returned is {'number':"),
    ("ShowsNothing", "render", "render returned None and the observation is None"),
    ("TellsItsClass", "pickling", "the info of step cannot be sent to another process"),
    ("ShowsFloats", "render", "arrays of height x width x 3 in uint8"),
    (
        "IsOutsideItsSpace",
        "gymnasium",
        "Gymnasium's own check says: The first element returned by `env.reset()` is not",
    ),
    ("IsNoGymnasiumEnv", "gymnasium", "must inherit from the gymnasium.Env class"),
    ("RaisesOnJunk", "junk actions", "the action '' raised KeyError: '' (unfit_envs.py, line"),
    ("RaisesWhenMade", "start", "it raised FileNotFoundError: no data here (unfit_envs.py, line"),
    ("RaisesInReset", "start", "it raised ZeroDivisionError: a villain divides by zero (unfit_envs.py, line"),
    ("RaisesInStep", "episode", "number 1 of an episode, raised ZeroDivisionError"),
    ("ExitsInStep", "episode", "number 1 of an episode, raised SystemExit: 3"),
    ("HasOldSteps", "episode", "return (observation, reward, terminated, truncated, info)"),
    ("HasOldReset", "start", "return (observation, info)"),
    ("of_nothing", "start", "making it returned 7, which has no reset and step"),
]


@pytest.fixture
def at_home(monkeypatch):
    """Another process is not the point, and takes its time."""
    monkeypatch.setattr(checks, "plays_alike_elsewhere", lambda play, *arguments: play(*arguments))


ALL_CHECKS = ("DrawsFromItsOwnStream", "SharesAList", "TellsNothing", "RaisesInStep", "ChangesWhenLookedAt")
"""Environments that all checks look at; at the others, only that which finds the fault, and those that it needs."""


@pytest.mark.parametrize(("name", "check", "says"), UNFIT, ids=[row[0] for row in UNFIT])
def test_each_fault_is_found_by_its_own_check(name, check, says, request, monkeypatch):
    if check != "other processes":
        request.getfixturevalue("at_home")
    if name not in ALL_CHECKS:
        needed = {check, *next(each.needs for each in checks.CHECKS if each.name == check)}
        monkeypatch.setattr(checks, "CHECKS", [each for each in checks.CHECKS if each.name in needed])
    verdicts = list(check_environment(f"unfit_envs:{name}"))
    found = [verdict for verdict in verdicts if verdict.outcome in ("wrong", "note")]
    assert [verdict.check for verdict in found] == [check], verdicts
    assert says in found[0].remark
    assert (found[0].outcome == "note") == (check in ADVICE or name in ("TellsNothing", "CountsItsInstances"))


@pytest.mark.parametrize("name", ["Fit", "KIND", "without_arguments", "KeepsASecret"])
def test_an_environment_that_keeps_the_contract_passes_however_it_is_named(name, at_home):
    assert {verdict.outcome for verdict in check_environment(f"unfit_envs:{name}")} == {"ok"}


def test_an_environment_whose_random_part_is_hidden_passes_with_a_remark(at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:KeepsASecret")}
    assert "right if the random part is hidden from the player" in verdicts["seed"].remark


def test_another_process_says_the_same_of_an_environment_that_keeps_the_contract():
    assert {verdict.outcome for verdict in check_environment("unfit_envs:Fit")} == {"ok"}


AT_HOME = [name for name in KINDS.names() if find_kind(name).address_setting is None]
"""Types that need no server. The others are checked with one, in tests/integrations/openenv/test_remote.py."""


@pytest.mark.parametrize("name", AT_HOME)
def test_the_environments_that_ship_keep_the_contract(name, at_home):
    assert {verdict.outcome for verdict in check_environment(name)} == {"ok"}


def test_what_only_one_of_many_uses_finds_out_is_found_too(at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:RaisesWhenUsedAgain")}
    assert "raised RuntimeError: only once" in verdicts["seed"].remark


def test_what_follows_from_another_fault_is_not_judged(at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:DrawsFromItsOwnStream")}
    assert verdicts["replay"].outcome == "skipped"
    assert verdicts["replay"].remark == "not checked: repair 'seed' first"


def test_what_draws_from_shared_generators_is_checked_with_its_own_and_prints_elsewhere(at_home, capfd):
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:DrawsEverywhere")}
    assert verdicts.pop("global random state").remark.startswith("making it changed the state of the module random")
    assert {verdict.outcome for verdict in verdicts.values()} == {"ok"}, verdicts
    printed = capfd.readouterr()
    assert "rolling" not in printed.out and "rolling" in printed.err


def test_all_that_is_made_is_closed(at_home, monkeypatch):
    open_now = set()
    monkeypatch.setattr(unfit_envs.Fit, "close", lambda self: open_now.remove(self))  # noqa: PLW0108
    original = unfit_envs.Fit.reset
    monkeypatch.setattr(unfit_envs.Fit, "reset", lambda self, **more: open_now.add(self) or original(self, **more))
    list(judge(checks.CHECKS, find_trial("unfit_envs:Fit"), str))
    assert not open_now


def test_another_process_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not Path(path, "unfit_envs.py").exists()])
    verdict = list(check_environment("unfit_envs:Fit"))[-1]
    assert verdict.outcome == "wrong" and "there is no module 'unfit_envs'" in verdict.remark


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (
            "no_such_module:Env",
            "there is no module 'no_such_module': run this in the folder it lies in, or install it.",
        ),
        ("unfit_envs:Fitt", "unfit_envs has no 'Fitt': did you mean 'Fit'?"),
        ("os:sep", "os:sep is '/': expected an environment class, a factory of environments or an EnvKind."),
        ("collections:OrderedDict", "expected an environment class"),
        ("sokobann", "did you mean 'sokoban'? Tags of your own go under"),
        (":Env", "':Env' names no environment: expected MODULE:NAME"),
    ],
)
def test_what_cannot_be_checked_is_told_in_one_sentence(target, says):
    with pytest.raises(RolloutError) as error:
        find_trial(target)
    assert says in str(error.value)


def test_a_module_that_raises_when_imported_is_told(tmp_path, monkeypatch):
    (tmp_path / "raising_module.py").write_text("1 / 0")
    (tmp_path / "needy_module.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RolloutError, match=r"raised ZeroDivisionError: division by zero \(raising_module.py, line 1\)"):
        find_trial("raising_module:Env")
    with pytest.raises(RolloutError, match="importing needy_module failed: No module named 'no_such_thing'"):
        find_trial("needy_module:Env")


# ---- environments that are adapted, and those that cannot be repeated


@pytest.mark.parametrize("name", ["Walk", "NamedWalk", "Lock", "Ragen", "NeedsBoth", "OldDiscrete", "TextRender"])
def test_environments_that_are_adapted_pass(name, at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment(f"stranger_envs:{name}")}
    assert {verdict.outcome for verdict in verdicts.values()} <= {"ok", "skipped"}, verdicts
    is_old = name not in ("Walk", "NamedWalk", "Lock")
    assert [each for each, verdict in verdicts.items() if verdict.outcome == "skipped"] == ["gymnasium"] * is_old
    assert not is_old or "its reset has not Gymnasium's form" in verdicts["gymnasium"].remark


def test_what_is_filled_in_is_told(at_home):
    remark = {verdict.check: verdict for verdict in check_environment("stranger_envs:Walk")}["info"].remark
    assert remark.startswith("has no success, action_is_valid, action_is_effective, so abreast fills it in (success: ")


def test_what_cannot_be_replayed_is_not_compared(at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment("stranger_envs:LivePage")}
    skipped = {name for name, verdict in verdicts.items() if verdict.outcome == "skipped"}
    assert skipped == {"seed", "instances", "gymnasium", "replay", "other processes"}
    assert {verdict.outcome for name, verdict in verdicts.items() if name not in skipped} == {"ok"}
    assert "it cannot be replayed (replayable = False)" in verdicts["seed"].remark


@pytest.mark.parametrize(
    ("name", "check", "says"),
    [
        ("Oddly", "episode, render", "played with texts, as the manager plays it, the action "),
        (
            "Oddly",
            "episode, render",
            "its action space is Dict('go': Discrete(2)), and texts can name actions of",
        ),
        ("Continuous", "start", "its action space is Box(-1.0, 1.0, (1,), float32)"),
        ("Seedless", "seed", "its reset takes no seed, and it has no method seed(seed): add one of them"),
        (
            "ListsWhatIsNot",
            "texts",
            "the action 'fly', number 1 of an episode, names no action, so the manager dropped it",
        ),
    ],
)
def test_what_fails_with_what_the_manager_sends_is_not_passed(name, check, says, at_home):
    wrong = [verdict for verdict in check_environment(f"stranger_envs:{name}") if verdict.outcome == "wrong"]
    assert ", ".join(verdict.check for verdict in wrong) == check and says in wrong[0].remark


def test_an_action_that_raises_is_named_and_the_checks_that_do_not_need_it_go_on(at_home):
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:RaisesAtALongWord")}
    wrong = [verdict for verdict in verdicts.values() if verdict.outcome == "wrong"]
    assert [verdict.check for verdict in wrong] == ["episode"]
    assert re.match(
        r"the action '.+', number \d+ of an episode, raised ValueError: too long \(unfit_envs", wrong[0].remark
    )
    skipped = [name for name, verdict in verdicts.items() if verdict.outcome == "skipped"]
    assert skipped == ["gymnasium", "texts", "junk actions"] and len(verdicts) == 13
    assert verdicts["seed"].remark == "the same seed gives the same episode, up to the action that raised"
    verdicts = {verdict.check: verdict for verdict in check_environment("unfit_envs:RaisesInStep")}
    assert verdicts["info"].remark == "not checked: no step could be taken"


def test_the_charset_of_texts_is_named_only_where_an_observation_is_outside_of_its_space(at_home):
    remarks = {
        name: {verdict.check: verdict.remark for verdict in check_environment(f"unfit_envs:{name}")}["gymnasium"]
        for name in ("IsOutsideItsSpace", "NeedsASeed")
    }
    assert "letters and digits only, unless charset= says otherwise" in remarks["IsOutsideItsSpace"]
    assert "charset" not in remarks["NeedsASeed"]
    assert (
        "own check raised TypeError: int() argument must be" in remarks["NeedsASeed"]
        and "unfit_envs.py, line" in remarks["NeedsASeed"]
    )


def test_a_reward_that_is_not_finite_is_told_by_all_checks_that_play(at_home):
    verdicts = check_environment("unfit_envs:RewardsWithNaN")
    faults = {verdict.check: verdict.remark for verdict in verdicts if verdict.outcome == "wrong"}
    assert faults.keys() == {"texts", "replay"}
    assert "its reward is nan" in faults["texts"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("HangsAtZeroByte", "the action '\\x00' has not returned after 0.5 seconds"),
        ("DiesAtZeroByte", "the action '\\x00' ended the process (exit code -9)"),
        ("HangsAtTheThirdStep", "number 3 of an episode, has not returned after 0.5 seconds"),
    ],
)
def test_a_call_that_does_not_return_is_ended_and_named_and_the_other_checks_go_on(name, says, at_home, monkeypatch):
    monkeypatch.setattr(trial, "LIMIT_S", 0.5)
    monkeypatch.setattr(checks, "LIMIT_S", 0.5)
    done = []
    verdicts = list(check_environment(f"unfit_envs:{name}", doing=done.append))
    wrong = [verdict for verdict in verdicts if verdict.outcome == "wrong"]
    assert len(wrong) == 1 and says in wrong[0].remark, verdicts
    assert len(verdicts) == len(checks.CHECKS) and "start: making it" in done


def test_what_cannot_reach_an_environment_or_makes_no_rollout_wrong_is_no_fault(at_home):
    for name in ("unfit_envs:NAMED", "stranger_envs:wrapped_by_hand"):
        verdicts = list(check_environment(name))
        assert {verdict.outcome for verdict in verdicts} <= {"ok", "note", "skipped"}, verdicts
