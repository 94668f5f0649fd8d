"""A search: Optuna chooses the settings of each trial, from the results of trials before.

    for each batch of `trials_at_once` trials
      choose the settings of all            from the trials of batches before
      run them, one run for each seed       a trial that is worse than most at an evaluation is ended (`watch`)
      tell Optuna what came of each, in order

Choices depend on nothing but the seed of the search and the trials of batches before, so a search that was killed goes on
with the same choices. The study is a database in the sweep folder.
"""

import json
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import CheckpointError, ConfigError, RunFolderError
from abreast.evaluations import RunEvaluations, evaluated_checkpoints
from abreast.games import find_game
from abreast.headline import SUM, groups_of
from abreast.runs import RunConfig, RunResult
from abreast.sweeps.asked import Range, with_seeds
from abreast.sweeps.sweep import FAILED, PRUNED, Execute, Sweep, SweepDisplay

STUDY = "study.db"
OUTCOME = "outcome"
"""Attribute of a trial: what it is told with. It is kept before the first trial of a batch is told, because what is told
changes how the others are judged."""
STARTUP = 5
"""Finished trials without which none is pruned."""


class Trial(NamedTuple):
    """A trial of the search."""

    number: int
    configs: list[RunConfig]
    """Its runs, one for each seed."""
    epochs: int
    """Of each run."""
    trial: Any
    """Optuna's, of one that is not told yet; else None."""


def optuna_module() -> Any:
    """The package, or one sentence."""
    try:
        import optuna
    except ImportError:
        raise ConfigError('--search optuna needs the package optuna: pip install "abreast[optuna]".') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def run_search(sweep: Sweep, execute: Execute, display: SweepDisplay) -> str:
    """Run all trials that are missing; returns a sentence about the best."""
    optuna = optuna_module()
    path = sweep.folder / STUDY
    try:
        study = optuna.create_study(
            storage=f"sqlite:///{path.resolve()}",
            study_name="sweep",
            direction="maximize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
            load_if_exists=True,
        )
    except Exception as error:  # of SQLAlchemy, of SQLite
        reason = str(error).partition("\n")[0]
        raise RunFolderError(
            f"{path} cannot be opened ({reason}): remove it, and the search makes its choices again."
        ) from error
    asked = sweep.asked
    with sweep.at_work(display):
        for first in range(0, asked.trials, asked.trials_at_once):
            numbers = range(first, min(first + asked.trials_at_once, asked.trials))
            batch = [_choose(sweep, study, number) for number in numbers]
            _run_batch(sweep, study, [each for each in batch if each.trial is not None], execute, display)
    if all(each.state.name != "COMPLETE" for each in study.trials):
        return "No trial has finished, so there is no best one."
    best = study.best_trial
    settings = " ".join(f"{key}={json.dumps(value)}" for key, value in _settings(sweep, best.params).items())
    mode = best.user_attrs[OUTCOME].get("mode", "greedy")  # an earlier version knew no other
    return (
        f"The best of {len(study.trials)} trials is trial {best.number}, with a reward of {best.value:.2f} ({mode}):"
        f" {settings}"
    )


# ---- choosing


def _choose(sweep: Sweep, study: Any, number: int) -> Trial:
    """Trial `number`, as it was chosen, or chosen now; its runs are in the index from now on."""
    optuna, asked = optuna_module(), sweep.asked
    known = study.trials
    study.sampler = _sampler(asked.search_seed, number)
    trial = params = None
    if number == len(known):
        trial = study.ask()
    elif known[number].state.is_finished():
        params = known[number].params
    else:  # the search was killed while it ran
        trial = optuna.trial.Trial(study, known[number]._trial_id)
    if params is None:
        params = {}
        for place, (key, values) in enumerate(asked.settings.items()):
            study.sampler = _sampler(asked.search_seed, number, place)  # one that was killed in between goes on equally
            if isinstance(values, Range) or len(values) > 1:
                try:
                    params[key] = _suggest(trial, key, values)
                except ValueError as error:
                    raise RunFolderError(
                        f"{key} is searched otherwise than in {sweep.folder / STUDY} ({error}): put sweep.yaml back."
                    ) from None
    settings, first = _settings(sweep, params), number * len(asked.seeds)
    configs = sweep.add(with_seeds(asked, first, asked.games[0], settings, [f"trial {number}"]))
    if trial is None and known[number].state.name == "PRUNED":
        _note_pruned(sweep, configs)
    epochs = find_game(configs[0].game).configure(None, configs[0].settings).experiment.epochs
    return Trial(number, configs, epochs, trial)


def _sampler(*path: int) -> Any:
    """A fresh one: what it draws follows from its seed and the trials that are known."""
    seed = int(np.random.SeedSequence(path).generate_state(1)[0])
    return optuna_module().samplers.TPESampler(seed=seed, multivariate=False)


def _suggest(trial: Any, key: str, values: list[Any] | Range) -> Any:
    if isinstance(values, list):  # as texts, because a list is no category
        return trial.suggest_categorical(key, [json.dumps(value) for value in values])
    if values.is_whole:
        return trial.suggest_int(key, values.low, values.high, step=values.step or 1, log=values.log)
    return trial.suggest_float(key, values.low, values.high, step=values.step, log=values.log)


def _settings(sweep: Sweep, params: dict[str, Any]) -> dict[str, Any]:
    """The settings of a trial: what was chosen, and what there was no choice of."""
    chosen = dict[str, Any]()
    for key, values in sweep.asked.settings.items():
        if isinstance(values, Range):
            chosen[key] = params[key]
        else:
            chosen[key] = values[0] if len(values) == 1 else json.loads(params[key])
    return chosen


# ---- running


def _run_batch(sweep: Sweep, study: Any, batch: list[Trial], execute: Execute, display: SweepDisplay) -> None:
    """Run trials, end those that are worse than most, and tell what came of them."""
    owners = {Path(config.output): each for each in batch for config in each.configs}
    pruned = set[int]()

    def watch(config: RunConfig) -> str | None:
        each = owners[Path(config.output)]
        if each.number not in pruned and _is_worse_than_most(sweep, each):
            pruned.add(each.number)
        return f"{PRUNED}: trial {each.number} was worse than most" if each.number in pruned else None

    open_trials = [each for each in batch if OUTCOME not in each.trial.user_attrs]
    # A search that was killed may have known already which of them to end.
    configs = [config for each in open_trials for config in each.configs if watch(config) is None]
    if configs:
        sweep.carry_out(configs, execute, display, watch)
    for each in open_trials:
        each.trial.set_user_attr(OUTCOME, _outcome(sweep, each, each.number in pruned))
    states = optuna_module().trial.TrialState
    for each in batch:
        outcome = each.trial.user_attrs[OUTCOME]
        study.tell(each.trial, outcome["value"], states[outcome["state"]])
        if outcome["state"] == "PRUNED":  # also one whose runs have finished before they could be ended
            _note_pruned(sweep, each.configs)


def _note_pruned(sweep: Sweep, configs: list[RunConfig]) -> None:
    for config in configs:
        sweep.note(RunResult(config, Path(config.output), error=PRUNED))
    sweep.write_index()


def _outcome(sweep: Sweep, each: Trial, is_pruned: bool) -> dict[str, Any]:
    """What a trial is told with. Also one that finished before it could be ended is judged at every evaluation."""
    outputs = {f"runs/{Path(config.output).name}" for config in each.configs}
    if any(row["state"] == FAILED for row in sweep.index if row["run"] in outputs):
        return {"state": "FAIL", "value": None}
    if is_pruned or _is_worse_than_most(sweep, each):
        return {"state": "PRUNED", "value": None}
    value, first = _evaluations(sweep, each)[each.epochs], _evaluations_of(sweep, each.configs[0])
    return {"state": "COMPLETE", "value": value, "mode": first.mode(evaluated_checkpoints(first.run)[-1])}


def _is_worse_than_most(sweep: Sweep, each: Trial) -> bool:
    """Report the evaluations that are new, in order, and ask after each but the last whether that is the end."""
    storage, trial = each.trial.study.trials[each.number], each.trial
    reported = storage.intermediate_values
    if reported and max(reported) < each.epochs and trial.should_prune():
        return True
    for epochs, value in _evaluations(sweep, each, after=max(reported, default=0)).items():
        trial.report(value, epochs)
        if epochs < each.epochs and trial.should_prune():
            return True
    return False


def _evaluations(sweep: Sweep, each: Trial, after: int = 0) -> dict[int, float]:
    """The mean reward over seeds at each evaluation that all runs of a trial have, by epochs."""
    found = list[dict[int, float]]()
    for config in each.configs:
        evaluations = _evaluations_of(sweep, config)
        try:
            there = [each for each in evaluated_checkpoints(evaluations.run) if each.epochs > after]
            rewards = {checkpoint.epochs: evaluations.rewards(checkpoint) for checkpoint in there}
        except CheckpointError:  # there is none yet
            return {}
        groups = groups_of([each for played in rewards.values() for each in played], evaluations.names)
        if SUM not in groups:
            raise ConfigError(
                f"a search needs one value for each trial, but in {sweep.asked.games[0]} the result is one for each side"
                f" ({', '.join(groups)}): what one side gains, another loses. Remove search, list the values"
                " of each setting instead, and let the runs play each other with `abreast tournament`."
            )
        found.append({epochs: fmean(map(sum, played)) for epochs, played in rewards.items()})
    common = sorted(set.intersection(*(set(each) for each in found)))
    return {epochs: fmean(each[epochs] for each in found) for epochs in common}


def _evaluations_of(sweep: Sweep, config: RunConfig) -> RunEvaluations:
    return RunEvaluations(
        Path(config.output),
        partial(find_game, config.game),
        seed=sweep.asked.search_seed,
        greedy=sweep.asked.greedy,
    )
