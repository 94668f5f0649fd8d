"""The command line: what it prints, what it leaves behind, and one clear sentence for every mistake."""

import contextlib
import errno
import importlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from importlib.metadata import EntryPoint
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import torch
import yaml
from rich.console import Console

import abreast
import own_game
from abreast import plugins
from abreast.checking import Verdict
from abreast.cli import app as app_module
from abreast.cli import rollouts as cli_rollouts
from abreast.cli import run
from abreast.cli.app import COMMANDS, as_typed
from abreast.cli.play import at_random, with_players
from abreast.cli.train import _compared
from abreast.display import NORMAL, set_volume
from abreast.games import find_game, list_games
from abreast.integrations.adapted.experiment import AdaptedGame
from abreast.models import ALGORITHMS, RandomModel
from abreast.processes.process import ProcessBackend
from abreast.rollouts import find_kind
from abreast.rollouts.context.preview import first_prompt
from abreast.rollouts.registry import KINDS
from abreast.settings import explain
from chaos.damage import BOMB
from forked_commands import Command

SMALL = ["experiment.epochs=2", "experiment.max_turns=5", "model.hidden_size=16", "model.batch_size=8", "--agents", "2"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # `abreast check` looks for modules in the current folder
    return tmp_path


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# ---- mistakes: (name, arguments, what the sentence says)

MISTAKES = [
    ("unknown key", ["train", "treasurehunt", "experiment.epoch=3"],
     "unknown key experiment.epoch: did you mean 'experiment.epochs'?"),
    ("key of another section", ["train", "treasurehunt", "experiment.gem_value=3"],
     "unknown key experiment.gem_value: did you mean 'world.gem_value'?"),
    ("unknown section", ["train", "treasurehunt", "expriment.epochs=3"],
     "unknown key expriment: did you mean 'experiment'?"),
    ("setting like no other of its section", ["train", "treasurehunt", "model.replay=3"],
     "unknown key model.replay: known are: model."),
    ("key of another algorithm", ["train", "treasurehunt", "model.algorithm=dqn", "model.n_quantiles=3"],
     "unknown key model.n_quantiles"),
    ("wrong type", ["train", "treasurehunt", "experiment.epochs=many"],
     "experiment.epochs is 'many': expected a valid integer."),
    ("fraction for a count", ["train", "treasurehunt", "experiment.epochs=1.5"],
     "experiment.epochs is 1.5: expected a valid integer"),
    ("truth for a count", ["train", "treasurehunt", "experiment.epochs=true"],
     "experiment.epochs is True: expected a valid integer."),
    ("not a number", ["train", "treasurehunt", "model.learning_rate=.nan"], "model.learning_rate is nan"),
    ("wrong word", ["train", "treasurehunt", "experiment.turn_order=random"],
     "experiment.turn_order is 'random': expected 'sequential' or 'simultaneous'."),
    ("section that is no section", ["train", "treasurehunt", "experiment.epochs.more=3"],
     "goes into epochs, which is 600, not a section"),
    ("zero epochs", ["train", "treasurehunt", "experiment.epochs=0"],
     "experiment.epochs is 0: expected greater than or equal to 1."),
    ("zero agents", ["train", "treasurehunt", "--agents", "0"], "experiment.num_agents is 0"),
    ("negative height", ["train", "treasurehunt", "world.height=-4"],
     "world.height is -4: expected greater than or equal to 3."),
    ("negative radius", ["train", "treasurehunt", "model.agent_vision_radius=-1"], "model.agent_vision_radius is -1"),
    ("chance above one", ["train", "treasurehunt", "world.spawn_prob=1.5"], "world.spawn_prob is 1.5"),
    ("more agents than cells", ["train", "treasurehunt", "--agents", "5", "world.height=4", "world.width=4"],
     "5 entities (5 TreasurehuntAgent) need 5 free cells, but the 4x4 world has 4"),
    ("batch above capacity", ["train", "treasurehunt", "model.batch_size=64", "model.buffer_capacity=32"],
     "model: batch_size is 64, more than buffer_capacity 32"),
    ("rollout above capacity", ["train", "treasurehunt", "model.algorithm=ppo", "experiment.max_turns=5000"],
     "model.buffer_capacity is 4096, but ppo learns from all 5000 rows"),
    ("replay too small to stack", ["train", "treasurehunt", "model.batch_size=2", "model.buffer_capacity=2"],
     "a replay of 2 rows in 1 lane(s) is too small for 1 stacked frames"),
    ("unknown algorithm", ["train", "treasurehunt", "model.algorithm=iqm"],
     "model.algorithm is 'iqm': did you mean 'iqn'?"),
    ("an algorithm of one's own, without its file", ["train", "treasurehunt", "model.algorithm=tabular"],
     "known are: dqn, iqn, ppo, random, sac. A class of your own is MODULE:CLASS or FILE.py:CLASS."),
    ("unknown game", ["train", "treasurehnt"], "there is no game 'treasurehnt': did you mean 'treasurehunt'?"),
    ("nothing like a game", ["play", "chess"],
     "there is no game 'chess': known are: cleanup, coins, harvest, iowa, kitchen"),
    ("no scripted agents", ["schelling", "tag"],
     "tag does not say what it means to cooperate: let its environment have scripted"),
    ("one agent, no dilemma", ["schelling", "coins", "experiment.num_agents=1"], "raise experiment.num_agents"),
    ("taggers without runners", ["train", "tag", "--agents", "1"], "world.taggers is 1, but experiment.num_agents is 1"),
    ("river too wide", ["train", "cleanup", "world.river_width=20"], "world.river_width is 20"),
    ("not an override", ["train", "treasurehunt", "epochs"], "the override 'epochs' is not of the form section.key=value"),
    ("override without section", ["train", "treasurehunt", "epochs=3"], "is not of the form section.key=value"),
    ("override of broken YAML", ["train", "treasurehunt", "experiment.epochs=[1"], "is not valid YAML"),
    ("missing file", ["train", "treasurehunt", "--config", "none.yaml"], "cannot read the configuration file none.yaml"),
    ("broken file", ["train", "treasurehunt", "--config", "broken.yaml"], "broken.yaml is not valid YAML"),
    ("file of a list", ["train", "treasurehunt", "--config", "list.yaml"], "list.yaml holds [1, 2]"),
    ("file that is no text", ["train", "treasurehunt", "--config", "bytes.yaml"], "cannot read the configuration file"),
    ("section as a number", ["train", "treasurehunt", "--config", "number.yaml"], "experiment is 3"),
    ("output under a file", ["train", "treasurehunt", "--output", "list.yaml/run"],
     "cannot write the run folder list.yaml/run"),
    ("output of another run", ["train", "treasurehunt", "--output", "run"], "run already holds a run or its files"),
    ("quiet and verbose", ["train", "treasurehunt", "-q", "-v"], "--quiet and --verbose exclude each other"),
    ("quiet and verbose, of a rollout", ["rollout", "Bandit", "-qv"], "--quiet and --verbose exclude each other"),
    ("output of an impossible name", ["train", "treasurehunt", "--output", "x" * 300], "cannot write the run folder xxx"),
    ("run of an impossible name", ["play", "treasurehunt", "--run", "x" * 300], "is not a run folder"),
    ("a date that is none", ["train", "treasurehunt", "experiment.seed=2020-13-45"], "is not valid YAML"),
    ("a tag that is nonsense", ["train", "treasurehunt", "experiment.seed=!!int foo"], "is not valid YAML"),
    ("brackets without end", ["train", "treasurehunt", "experiment.seed=" + "[" * 500], "is not valid YAML"),
    ("a number without end", ["train", "treasurehunt", "experiment.seed=" + "9" * 5000], "is not valid YAML"),
    ("a number of thousands of hexadecimal digits", ["settings", "treasurehunt", "experiment.seed=0x" + "f" * 5000],
     "is not valid YAML"),
    ("aliases of aliases", ["train", "treasurehunt", "--config", "bomb.yaml"],
     "bomb.yaml is not valid YAML: its aliases stand for more than 1,000,000 values."),
    ("an alias of itself", ["settings", "treasurehunt", "world.height=&a [*a]"], "is not valid YAML"),
    ("older section beside a section that is none", ["settings", "treasurehunt", "--config", "older.yaml"],
     "multiprocessing is 3"),
    ("older section with a number for a key", ["settings", "treasurehunt", "--config", "older_key.yaml"],
     "unknown key parallel.7"),
    ("an agent of thousands of digits", ["settings", "treasurehunt", "model.per_agent." + "1" * 5000 + ".gamma=0.5"],
     "model.per_agent has a key"),
    ("too many threads", ["train", "treasurehunt", "experiment.compute_threads=3000000000"], "compute_threads is 3"),
    ("too large a network", ["train", "treasurehunt", "model.hidden_size=10000000"], "model.hidden_size is 10000000"),
    ("a network there is not", ["train", "treasurehunt", "model.network=cmn"], "'cmn' is no network: did you mean 'cnn'?"),
    ("a memory for iqn", ["train", "treasurehunt", "model.algorithm=iqn", "model.network=lstm"], "iqn has no network lstm"),
    ("a network that is no module", ["train", "treasurehunt", "model.network=math:floor"],
     "expected a class derived from torch.nn.Module"),
    ("a network for a model without one", ["train", "treasurehunt", "model.algorithm=random", "model.network=cnn"],
     "unknown key model.network"),
    ("too many quantiles", ["train", "treasurehunt", "model.algorithm=iqn", "model.n_quantiles=10000000"],
     "model.n_quantiles is 10000000"),
    ("too large a world", ["train", "treasurehunt", "world.height=1000000"], "world.height is 1000000"),
    ("more memory than there is", ["train", "treasurehunt", "model.buffer_capacity=1000000000",
      "model.agent_vision_radius=200"], "there is not enough memory for this configuration"),
    ("more lanes than can be counted", ["train", "treasurehunt", f"multiprocessing.num_envs={2**63}"],
     "there is not enough memory for this configuration"),
    ("agents enough to fill the machine", ["train", "cleanup", "--agents", "10000"], "the 11x13 world has 143 cells"),
    ("unknown option", ["train", "treasurehunt", "--agnets", "3"], "--agnets"),
    ("text for a number", ["train", "treasurehunt", "--agents", "many"], "Invalid value for '--agents'"),
    ("no game at all", ["train"], "Missing argument"),
    ("inexact, but nothing to resume", ["train", "treasurehunt", "--inexact"],
     "--inexact is given without --resume RUN: remove it, or name the run to resume"),
    ("no game in the file either", ["train", "model.gamma=0.5", "--config", "older.yaml"], "or as `game` in the file of"),
    ("unknown command", ["trian", "treasurehunt"], "No such command 'trian'. Did you mean 'train'? `abreast --help` shows"),
    ("mode misspelt", ["train", "treasurehunt", "multiprocessing.mode=snapshat"],
     "multiprocessing.mode is 'snapshat': expected 'snapshot' or 'double_buffer'."),
    ("schedule misspelt", ["train", "treasurehunt", "multiprocessing.schedule=lock"], "multiprocessing.schedule is 'lock'"),
    ("workers misspelt", ["train", "treasurehunt", "multiprocessing.workers=process"], "multiprocessing.workers is"),
    ("more workers than agents", ["train", "treasurehunt", "--parallel", "multiprocessing.num_workers=9"],
     "multiprocessing.num_workers is 9, but there are 5 agents"),
    ("a GPU that is not there", ["train", "treasurehunt", "--parallel", "multiprocessing.device=cuda:99"],
     "multiprocessing.device is 'cuda:99'"),
    ("no actor", ["train", "treasurehunt", "--parallel", "multiprocessing.num_actors=0"],
     "multiprocessing.num_actors is 0"),
    ("lanes that actors cannot share",
     ["train", "treasurehunt", "multiprocessing.num_envs=3", "multiprocessing.num_actors=2"],
     "num_envs is 3 and num_actors is 2, but num_envs are the lanes of all actors together, shared in equal parts"),
    ("half an actor", ["train", "treasurehunt", "--parallel", "multiprocessing.num_actors=0.5"],
     "multiprocessing.num_actors is 0.5"),
    ("older spelling misspelt", ["train", "treasurehunt", "parallel.use_thread=true"], "did you mean 'use_threads'?"),
    ("priority of an agent that is not there", ["train", "treasurehunt", "multiprocessing.priority.5=2"],
     "multiprocessing.priority names agent 5, but the last agent is 4"),
    ("no priority at all", ["train", "treasurehunt", "multiprocessing.priority={0: 0}"],
     "multiprocessing.priority.0 is 0: expected greater than 0."),
    ("priority that is no number", ["train", "treasurehunt", "multiprocessing.priority.0=.nan"],
     "multiprocessing.priority.0 is nan"),
    ("bounds the wrong way round", ["train", "treasurehunt", "model.adaptive_batch=[256, 32]"],
     "model: adaptive_batch is [256, 32]: expected two numbers of rows"),
    ("one bound", ["train", "treasurehunt", "model.adaptive_batch=32"], "model.adaptive_batch: expected the least and"),
    ("bounds for an algorithm without batches", ["train", "treasurehunt", "model.algorithm=ppo",
      "model.adaptive_batch=[32, 256]"], "unknown key model.adaptive_batch"),
    ("no run folder", ["play", "treasurehunt", "--run", "nowhere"], "nowhere is not a run folder"),
    ("unknown tag", ["rollout", "SimpelSokoban"],
     "there is no tag or environment type 'SimpelSokoban': did you mean 'SimpleSokoban'?"),
    ("nothing like a tag", ["rollout", "chess"], "there is no tag or environment type 'chess': known are: "),
    ("unknown policy", ["rollout", "Bandit", "--policy", "slover"],
     "there is no policy 'slover': did you mean 'solver'?"),
    ("policy without a solver", ["rollout", "metamathqa", "--policy", "solver"],
     "the environment type 'metamathqa' has no solver: take the policy random, or one of these types: bandit, "),
    ("no episodes", ["rollout", "Bandit", "--episodes", "0"], "Invalid value for '--episodes'"),
    ("half a group", ["rollout", "Bandit", "--episodes", "10", "--group-size", "4"],
     "--episodes 10 is not a multiple of --group-size 4"),
    ("too large a group", ["rollout", "Bandit", "--group-size", "1000"], "64 is not a multiple of --group-size 1000"),
    ("negative seed", ["rollout", "Bandit", "--seed", "-1"], "seed.train is -1: expected greater than or equal to 0."),
    ("no actions", ["rollout", "Bandit", "--max-actions", "0"], "custom_envs.Bandit.max_actions_per_traj is 0"),
    ("rollout into another run", ["rollout", "Bandit", "--output", "run"], "run already holds a run or its files"),
    ("rollout under a file", ["rollout", "Bandit", "--output", "list.yaml/run"],
     "cannot write the run folder list.yaml/run"),
    ("unknown setting of an environment", ["rollout", "SimpleSokoban", "env.num_boxs=2"],
     "env_config of the tag 'SimpleSokoban': unknown key num_boxs: did you mean 'num_boxes'?"),
    ("wrong setting of an environment", ["rollout", "sokoban", "env.num_boxes=many"],
     "env_config of the tag 'sokoban': num_boxes is 'many': expected a valid integer."),
    ("unknown setting of the manager", ["rollout", "Bandit", "es_manager.max_worker=3"],
     "unknown key es_manager.max_worker: did you mean 'es_manager.max_workers'?"),
    ("wrong setting of the manager", ["rollout", "Bandit", "es_manager.max_workers=0"], "es_manager.max_workers is 0"),
    ("no override of a rollout", ["rollout", "Bandit", "env=3"], "'env=3' is not of the form section.key=value"),
    ("a number for a tag", ["rollout", "Bandit", "custom_envs.Bandit=3"], "custom_envs.Bandit is 3, expected a mapping"),
    ("a number for the settings", ["rollout", "Bandit", "custom_envs.Bandit.env_config=3"], "env_config is 3"),
    ("groups by hand", ["rollout", "Bandit", "es_manager.train.group_size=4"],
     "es_manager.train.group_size=4 has no effect: the tags and the options of this command decide it. Remove it."),
    ("seeds to validate with", ["rollout", "Bandit", "seed.val=4"], "seed.val=4 has no effect"),
    ("settings of a tag that is not played",
     ["rollout", "Bandit", "custom_envs.X.env_type=bandit", "custom_envs.X.max_turns=1"],
     "custom_envs.X is set, but the tag X is not played, only Bandit: add X to the tags, or remove its settings."),
    ("a tag without a type", ["rollout", "X", "custom_envs.X.max_turns=1"], "there is no tag or environment type 'X'"),
    ("a new tag with a wrong setting", ["rollout", "X", "custom_envs.X.env_type=bandit", "custom_envs.X.max_turns=0"],
     "custom_envs.X.max_turns is 0: expected greater than or equal to 1."),
    ("a server for another policy", ["rollout", "Bandit", "--base-url", "http://localhost:1/v1"],
     "--base-url has no effect with the policy random: use --policy openai, or remove it."),
    ("sampling for another policy", ["rollout", "Bandit", "--policy", "solver", "sampling.seed=1"],
     "sampling.seed=1 has no effect with the policy solver"),
    ("setting of a tag without a section", ["rollout", "Bandit", "max_turns=1"],
     "use --max-actions, --max-turns, --instruction or 'custom_envs.Bandit.max_turns=1'."),
    ("no turns", ["rollout", "Bandit", "--max-turns", "0"], "custom_envs.Bandit.max_turns is 0"),
    ("check with a setting that it has not", ["check", "bandit", "es_manager.max_workers=2"],
     "es_manager.max_workers=2 has no effect on the check of bandit: remove it."),
    ("check with an unknown setting", ["check", "Bandit", "env.low=2"], "env_config of the tag 'Bandit': unknown key low"),
    ("missing file of a rollout", ["rollout", "Bandit", "--config", "none.yaml"], "cannot read the configuration file"),
    ("file of a game", ["rollout", "Bandit", "--config", "number.yaml"], "unknown key experiment"),
    ("tag of an unknown type", ["rollout", "Mine", "--config", "tag.yaml"],
     "there is no environment type 'sokobann': did you mean 'sokoban'?"),
    ("settings of an unknown type", ["envs", "sokobann"], "did you mean 'sokoban'?"),
    ("check of an unknown module", ["check", "no_such_module:Env"], "there is no module 'no_such_module'"),
    ("check of an unknown name", ["check", "abreast.rollouts.envs.bandit:BanditEvn"], "did you mean 'BanditEnv'?"),
    ("check of what is no environment", ["check", "os:sep"], "os:sep is '/': expected an environment class"),
    ("check of a game that is not there", ["check", "treasurehnt"], "no environment, game or model 'treasurehnt': did you"),
    ("check of an unknown model", ["check", "dqnn"], "there is no environment, game or model 'dqnn': did you mean 'dqn'?"),
    ("check of a file that is not there", ["check", "nowhere.py"], "there is no file nowhere.py."),
    ("check of an unknown type", ["check", "bandt"], "there is no tag or environment type 'bandt': did you mean 'bandit'?"),
    ("play of a damaged run", ["play", "run"], "run/config.yaml does not say of which game it is: give it, as in"
      " `abreast play GAME --run run`."),
    ("two run folders", ["play", "run", "--run", "run"], "run and --run run are both run folders"),
    ("folder that is no run", ["play", "runs/nowhere"], "runs/nowhere is not a run folder: it has no config.yaml"),
    ("rate by its usual name", ["train", "treasurehunt", "model.lr=0.1"],
     "unknown key model.lr: did you mean 'model.learning_rate'?"),
    ("rate without a section", ["train", "treasurehunt", "lr=0.1"],
     "the override 'lr=0.1' is not of the form section.key=value: did you mean 'model.learning_rate=0.1'?"),
    ("discount without a section", ["train", "treasurehunt", "gamma=0.9"], "did you mean 'model.gamma=0.9'?"),
    ("setting of the world without a section", ["settings", "treasurehunt", "gem_value=3"],
     "did you mean 'world.gem_value=3'?"),
    ("misspelt without a section", ["train", "treasurehunt", "epoch=3"], "did you mean 'experiment.epochs=3'?"),
    ("a section for a key", ["train", "treasurehunt", "model=3"],
     "the override 'model=3' is not of the form section.key=value."),
    ("usual name in a file", ["train", "treasurehunt", "--config", "usual.yaml"],
     "unknown key experiment.episodes: did you mean 'experiment.epochs'?"),
    ("setting of a rollout without a section", ["rollout", "Bandit", "max_workers=3"],
     "did you mean 'es_manager.max_workers=3'?"),
    ("zero epochs by option", ["train", "treasurehunt", "--epochs", "0"], "experiment.epochs is 0"),
    ("negative seed by option", ["train", "treasurehunt", "--seed", "-1"], "experiment.seed is -1"),
    ("zero episodes by option", ["train", "treasurehunt", "--episodes", "0"], "experiment.epochs is 0"),
    ("a device there is not", ["train", "treasurehunt", "--device", "tpu"], "multiprocessing.device is 'tpu'"),
    ("negative seed of a game to watch", ["play", "treasurehunt", "--seed", "-1"], "experiment.seed is -1"),
    ("unknown setting of rollouts", ["settings", "rollout", "context.max_word=3"],
     "unknown key context.max_word: did you mean 'context.max_words'?"),
    ("unknown section of rollouts", ["settings", "rollout", "trainer.x=2"], "unknown key trainer"),
    ("the timeline of no run", ["timeline", "nowhere"], "nowhere has no timeline: no such folder;"),
    ("no such game file", ["train", "nowhere.py"], "there is no file nowhere.py."),
    ("no such game in a module", ["settings", "own_game:Gardn"], "own_game has no 'Gardn': did you mean 'Garden'?"),
    ("module that is no game", ["play", "own_game:Bush"],
     "the game 'own_game:Bush' is <class 'own_game.Bush'>: expected a subclass of Environment"),
    ("text for a size of a plain world", ["train", "own_game:Garden", "world.height=tall"], "world.height is 'tall'"),
    ("help of the command", ["train", "treasurehunt", "--epochs", "many"], "`abreast train --help` shows what there is."),
    ("help of all commands", ["trian"], "`abreast --help` shows what there is."),
    ("unknown logger", ["train", "treasurehunt", "--logger", "csv", "--logger", "tensorbord"],
     "there is no logger 'tensorbord': did you mean 'tensorboard'?"),
    ("class that is no logger", ["train", "treasurehunt", "--logger", "own_game:Bush"],
     "the logger own_game:Bush has no method record_epoch(epoch, loss, reward, epsilon, **more)."),
    ("export of no run", ["export", "nowhere", "--to", "csv"], "nowhere is not a run folder: No such file or directory."),
    ("export of a run without metrics", ["export", "run", "--to", "csv"], "run/metrics.jsonl cannot be read: No such file"),
    ("export to an unknown logger", ["export", "run", "--to", "cvs"], "there is no logger 'cvs': did you mean 'csv'?"),
    ("export to nothing", ["export", "run"], "Missing option '--to'"),
    ("watch of what is no run", ["watch", "nowhere"], "nowhere is no run folder: No such file or directory."),
    ("watch at a port there is not", ["watch", "run", "--port", "70000"], "should be less than or equal to 65535"),
    ("request there is not", ["watch", "run", "--ask", "posue"], "a run cannot be asked for 'posue': did you mean 'pause'?"),
    ("request to a run that is over", ["watch", "run", "--ask", "stop"], "no run is under way there."),
    ("report of no run", ["report", "nowhere"], "nowhere is no run folder: No such file or directory."),
    ("report of an empty folder", ["report", "."], ". is no run folder: it has none of config.yaml, metrics.jsonl,"),
    ("damaged model", ["play", "treasurehunt", "--run", "run"], "run has no checkpoint yet, or is no run folder"),
]  # fmt: skip


def test_without_a_terminal_it_is_said_that_torch_is_loaded_if_it_takes_long(monkeypatch):
    said, written = [], threading.Event()
    set_volume(NORMAL)
    monkeypatch.setattr(app_module, "out", Console(file=io.StringIO()))
    monkeypatch.setattr(app_module, "SILENT_S", 0.01)
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=lambda text: (said.append(text), written.set())))
    monkeypatch.setattr(app_module, "import_module", lambda name: written.wait(60))
    app_module.load_training()
    assert said == ["Loading torch …\n"]


def test_several_mistakes_in_a_file_are_a_list_with_a_line_for_each(capsys):
    Path("faults.yaml").write_text("es_manager: {max_workers: 0, max_worker: 3}\ncustom_env: {}\ntrainer: {x: 1}")
    assert run(["rollout", "Bandit", "--config", "faults.yaml"]) == 2
    heading, *lines = capsys.readouterr().err.splitlines()
    assert heading == "abreast: 3 faults in this configuration:"
    assert [line.split(":")[0] for line in lines] == [
        "  - es_manager.max_workers is 0",
        "  - unknown key es_manager.max_worker",
        "  - unknown key custom_env",
    ]


def test_an_override_of_a_section_that_is_not_ours_is_a_mistake(capsys):
    Path("theirs.yaml").write_text("seed: {train: 1}\ntrainer: {x: 1}")
    assert run(["rollout", "Bandit", "--config", "theirs.yaml", "trainer.x=2"]) == 2
    assert "unknown key trainer" in capsys.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with files that are wrong in many ways, and what is in it."""
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "broken.yaml": "experiment: {epochs: 3",
        "list.yaml": "[1, 2]",
        "number.yaml": "experiment: 3",
        "bomb.yaml": BOMB,
        "older.yaml": "multiprocessing: 3\nparallel: {use_threads: true}",
        "older_key.yaml": "parallel: {7: true}",
        "usual.yaml": "experiment: {episodes: 3}",
        "tag.yaml": "custom_envs: {Mine: {env_type: sokobann}}",
        "run/config.yaml": "",
    }
    (folder / "run/checkpoints").mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / "run/checkpoints/agent_0.safetensors").write_bytes(b"damaged")
    return folder, everything_in(folder)


@pytest.mark.parametrize(("arguments", "says"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_gets_one_sentence_and_exit_code_2_and_leaves_nothing_behind(
    arguments, says, files, monkeypatch, capsys
):
    folder, before = files
    monkeypatch.chdir(folder)
    code = run(arguments)
    printed = capsys.readouterr()
    assert code == 2
    assert says in printed.err and printed.err.count("\n") == 1, printed.err
    assert "Traceback" not in printed.err and printed.out == ""
    assert everything_in(folder) == before


# ---- mistakes in a user's file: (its text, arguments, what the sentence says)

IN_FILES = {
    "a file that trains": (
        "from own_game import Garden\nGarden.make().run_experiment_mp(output_dir='trained')\n",
        ["settings", "FILE"],
        'calls run_experiment_mp when it is imported, as all commands and workers do: put that below `if __name__ == "__m',
    ),
    "a file that trains sequentially": (
        "from own_game import Garden\nGarden.make().run_experiment(output_dir='trained')\n",
        ["train", "FILE:Garden"],
        "calls run_experiment when it is imported",
    ),
    "a file with a syntax error": (
        "x = 1\ndef f(:\n",
        ["train", "FILE"],
        "it raised SyntaxError: invalid syntax ({}.py, line 2).",
    ),
    "a function that makes environments": (
        "def make(): pass\n",
        ["train", "FILE:make"],
        "Or did you mean pettingzoo:{0}.py:make or gymnasium:{0}.py:make?",
    ),
    "settings for a model": (
        "from unfit_models import Fit\nclass Mine(Fit): pass\n",
        ["check", "FILE", "model.gamma=0.5"],
        "model.gamma=0.5 has no effect on the check of {}.py: remove it.",
    ),
    "a file whose name is misspelt": ("", ["train", "aFILE"], "there is no file a{0}.py: did you mean '{0}.py'?"),
    "a model whose name is misspelt": (
        "from torch import nn\nfrom abreast import DQN\nclass DuellingNet(nn.Module): pass\nclass Duel(DQN): pass\n",
        ["train", "treasurehunt", "model.algorithm=FILE:Duelling"],
        "{}.py has no 'Duelling': did you mean 'Duel'?",
    ),
    "no model": (
        "from abreast import DQN\nclass Sarsa: pass\n",
        ["train", "treasurehunt", "model.algorithm=FILE:Sarsaa"],
        "{}.py has no 'Sarsaa': it has no class derived from BaseModel.",
    ),
    "several environments": (
        "class A: reset = step = None\nclass B(A): pass\n",
        ["check", "FILE"],
        "has A, B with reset and step: name one environment, as in {}.py:A.",
    ),
}


@pytest.mark.parametrize("number", range(len(IN_FILES)), ids=list(IN_FILES))
def test_a_mistake_in_a_users_file_is_one_sentence(number, capsys):
    text, arguments, says = list(IN_FILES.values())[number]
    name = f"users_file_{number}"
    Path(f"{name}.py").write_text(text)
    assert run([each.replace("FILE", f"{name}.py") for each in arguments]) == 2
    told = capsys.readouterr().err
    assert says.format(name) in told and told.count("\n") == 1, told
    assert not Path("trained").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(capsys):
    Path("locked").mkdir(mode=0o500)
    assert run(["train", "treasurehunt", *SMALL, "--output", "locked/run"]) == 2
    assert "cannot write the run folder locked/run: Permission denied" in capsys.readouterr().err


# ---- what works


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "plan: "),
        (["multiprocessing.workers=inline"], "plan: inline"),
        (["--freeze", "0,1"], "all agents are frozen"),
        (
            [
                "multiprocessing.workers=threads",
                "multiprocessing.num_envs=9",
                "multiprocessing.num_actors=9",
                "--epochs",
                "3",
            ],
            "6 of 9 actors",
        ),
        (["multiprocessing.workers=inline", "multiprocessing.num_workers=2"], "left out: num_workers 2"),
    ],
)
def test_a_parallel_run_keeps_its_plan_in_two_lines(more, says):
    assert run(["train", "treasurehunt", *SMALL, "--parallel", "--no-animate", "--output", "run", *more]) == 0
    first, second = json.loads(Path("run/plan.json").read_text())["reasons"]
    assert first.startswith("plan: ") and says in first + second


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of treasure hunt, and what the command printed."""
    base = tmp_path_factory.mktemp("trained")
    folder, file = base / "run [red] [/x]", base / "mine.yaml"
    file.write_text("experiment: {epochs: 7, max_turns: 4, num_agents: 9}\nmodel: {learning_rate: 1e-4}\nworld:\n")
    printed = io.StringIO()
    arguments = [*SMALL, "experiment.max_turns=3", "--config", str(file), "--no-animate", "--output", str(folder)]
    with contextlib.redirect_stdout(printed):
        assert run(["train", "treasurehunt", *arguments]) == 0
    return folder, printed.getvalue()


def test_train_writes_a_run_folder_and_plays_what_was_asked_for(trained):
    folder, printed = trained
    mean, where, watch = printed.splitlines()[-3:]
    assert mean.startswith("Mean reward of the last 1 epoch: ") and "random" not in printed
    assert where == f"The run folder is {folder}"  # a name is taken as it is
    assert watch == f"Watch the agents:  abreast play {shlex.quote(str(folder))}"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1] and len(lines[0]["reward_per_agent"]) == 2


def test_settings_come_from_game_then_file_then_command_line(trained):
    kept = yaml.safe_load((trained[0] / "config.yaml").read_text())
    assert kept["experiment"]["epochs"] == 2  # the command line over the file
    assert kept["experiment"]["max_turns"] == 3 and kept["experiment"]["num_agents"] == 2
    assert kept["model"]["learning_rate"] == 1e-4  # the file over the game
    assert kept["world"]["bone_value"] == -10.0  # the game's own; an empty heading changes nothing
    assert kept["experiment"]["record_period"] == 100


def test_a_run_can_be_repeated_from_its_own_config(trained):
    repeated = ["train", "experiment.max_turns=3", "--config", str(trained[0] / "config.yaml"), "--no-animate"]
    assert run([*repeated, "--output", "again"]) == 0
    one, two = (
        [{**json.loads(line), "time": 0} for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (trained[0], Path("again"))
    )
    assert one == two


def test_trained_agents_play_without_exploring_each_with_its_own_weights(trained):
    env = with_players(find_game("treasurehunt"), trained[0], ["experiment.max_turns=2"], {})
    assert env.config.experiment.max_turns == 2
    for index, agent in enumerate(env.agents):
        other = find_game("treasurehunt").build(env.config).agents[0].model
        other.load(trained[0] / f"checkpoints/final/agent_{index}.safetensors")
        assert agent.model.epsilon == 0 and torch.equal(agent.model.online_block.values, other.online_block.values)


def test_play_shows_a_random_and_a_trained_game(trained, capsys):
    for game in ("treasurehunt", "cleanup"):
        assert run(["play", game, "experiment.max_turns=2"]) == 0
        assert "turn 2" in capsys.readouterr().out
    assert run(["play", "treasurehunt", "--run", str(trained[0])]) == 0
    printed = capsys.readouterr().out
    assert "turn 3" in printed and "#" in printed
    assert run(["play", str(trained[0])]) == 0
    assert capsys.readouterr().out == printed
    assert run(["play", str(trained[0]), "--seed", "5"]) == 0
    assert capsys.readouterr().out != printed


# ---- random agents, and whether a run has learned


def test_random_agents_play_for_comparison_and_are_told_of(monkeypatch, capsys):
    monkeypatch.setattr("abreast.cli.train.FEWEST_EPOCHS", 1)
    monkeypatch.setattr("abreast.cli.train.RANDOM_SHARE", 1000.0)
    arguments = ["experiment.epochs=2", "experiment.max_turns=5", "model.hidden_size=16", "--no-animate"]
    # the game decides on its number of agents
    assert run(["train", "strangers.games:Walkers", *arguments, "--output", "run"]) == 0
    printed = capsys.readouterr().out
    assert "random agents get" in printed and json.loads(Path("run/random_agents.json").read_text())
    assert yaml.safe_load(Path("run/config.yaml").read_text())["experiment"]["num_agents"] == 2
    assert run(["play", "run"]) == 0


def test_a_game_that_random_agents_cannot_play_has_no_comparison(monkeypatch, capsys, caplog):
    monkeypatch.setattr("abreast.cli.train.RANDOM_SHARE", 1000.0)
    assert run(["train", "odd_games:Jealous", "--output", "run", "-v"]) == 0
    assert "random" not in capsys.readouterr().out
    assert "random agents cannot play this game: I like no other models." in caplog.text


def test_a_run_that_is_no_better_than_random_agents_says_so_unless_quiet(capsys):
    """With a learning rate that ruins the policy."""
    ruined = [
        "gymnasium:CartPole-v1",
        "--steps",
        "6000",
        "model.algorithm=dqn",
        "model.learning_rate=0.5",
        "--no-animate",
    ]
    assert run(["train", *ruined, "--output", "loud"]) == 0
    printed = capsys.readouterr().out
    assert "are no better than random agents" in printed and 'The page "Choose an algorithm"' in printed
    assert "are no better than random agents" in Path("loud/log.txt").read_text()
    assert run(["train", *ruined, "--output", "quiet", "-q"]) == 0
    assert "random" not in capsys.readouterr().out and not Path("quiet/random_agents.json").exists()


def test_a_run_of_so_many_steps_is_finished_with_them_and_goes_on_with_more(capsys):
    small = ["experiment.max_turns=5", "experiment.num_agents=2", "model.hidden_size=16", "--no-animate"]
    assert run(["train", "treasurehunt", "--steps", "12", *small, "--output", "run"]) == 0
    capsys.readouterr()
    assert run(["train", "--resume", "run"]) == 0
    told = "Nothing is missing: all 12 steps are there. To go on, give a larger total, as in --steps 14."
    assert told in capsys.readouterr().out
    assert run(["train", "--resume", "run", "--steps", "20"]) == 0
    assert [json.loads(line)["steps"] for line in Path("run/metrics.jsonl").read_text().splitlines()] == [5, 10, 15, 20]


def test_random_agents_are_random_whatever_models_the_game_makes():
    game = find_game("odd_games:Stubborn")
    env = at_random(game, game.configure(None, ["multiprocessing.num_envs=6", "multiprocessing.num_actors=2"]))
    assert [type(agent.model) for agent in env.agents] == [RandomModel, RandomModel]
    assert env.config.multiprocessing.lanes == 1
    env.run_experiment(animate=False, logging=False)
    one, two = (agent.model.memory.trajectory(0, 0).actions.tolist() for agent in env.agents)
    assert one != two and len({*one, *two}) > 1


@pytest.mark.parametrize(
    ("given", "is_early"),
    [
        (["--parallel"], True),
        (["multiprocessing.enabled=true"], True),
        (["--config", "parallel.yaml"], True),
        ([], False),
        (["--config", "parallel.yaml", "multiprocessing.enabled=false"], False),
        (["--parallel", "multiprocessing.workers=threads"], False),
        (["--parallel", "--config", "none.yaml"], False),
    ],
)
def test_the_fork_server_imports_while_the_command_does(given, is_early, monkeypatch, capsys):
    Path("parallel.yaml").write_text("multiprocessing: {enabled: true}")
    warm = []
    monkeypatch.setattr("abreast.cli.train.has_free_core", lambda: True)
    monkeypatch.setattr(ProcessBackend, "warm_up", lambda backend: warm.append(True))
    assert run(["train", "treasurehunt", "experiment.epochs=0", *given]) == 2  # nothing is run
    assert bool(warm) == is_early and capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("reward", "chance", "says"),
    [
        (20, 10, "20.0; random agents get 10.0, so this is 2.0 times random."),
        (5, -10, "5.0; random agents get -10.0."),
        (5, 10, "5.0; random agents get 10.0."),
    ],
)
def test_the_comparison_with_random_agents(reward, chance, says):
    assert says in _compared({"sum": reward}, {"sum": chance}, 5)
    sides = _compared({"first_0": reward, "second_0": -reward}, {"first_0": chance, "second_0": -chance}, 5)
    assert f"first_0 {reward}.0, second_0 -{reward}.0; random agents get first_0 {chance}.0" in sides


def test_play_tells_the_score_of_every_episode_and_shows_the_last_without_colours(capsys):
    assert run(["play", "own_game:Garden", "--episodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and printed.count("turn 6") == 1 and "B  Bush" in printed
    for number, line in enumerate(printed.splitlines()[:2], start=1):
        scores = re.fullmatch(rf"episode {number}: (\S+) in 6 turns  \(agent 0 (\S+)  agent 1 (\S+)\)", line)
        total, one, two = map(float, scores.groups())
        assert total == one + two


def test_a_name_that_a_game_and_a_run_folder_share_is_that_of_the_game(capsys):
    run(["train", "own_game:Garden", "--output", "tag"])
    capsys.readouterr()
    assert run(["play", "tag", "experiment.max_turns=3"]) == 0 and "Runner" in capsys.readouterr().out
    assert run(["play", "./tag"]) == 0 and "Gatherer" in capsys.readouterr().out


# ---- games without a package


@pytest.fixture
def garden():
    """A game in a file of the current folder; its module has a name of its own in every test."""
    name = f"garden_{next(numbers)}"
    Path(f"{name}.py").write_text(Path(own_game.__file__).read_text())
    yield f"{name}.py"
    sys.modules.pop(name, None)


numbers = count()


@pytest.mark.parametrize(
    "parallel",
    [[], ["--parallel", "multiprocessing.num_envs=2", "multiprocessing.num_actors=2"]],
    ids=["here", "in processes"],
)
@pytest.mark.xdist_group("system")
def test_a_game_in_a_file_is_trained_and_played(garden, parallel, capsys):
    assert run(["train", garden, *parallel, "--seed", "7", "--epochs", "4", "--output", "out/run"]) == 0
    kept = yaml.safe_load(Path("out/run/config.yaml").read_text())
    assert (kept["game"], kept["experiment"]["seed"], kept["experiment"]["epochs"]) == (garden, 7, 4)
    lines = [json.loads(line) for line in Path("out/run/metrics.jsonl").read_text().splitlines()]
    assert [line["metrics"]["turns"] for line in lines] == [6.0] * 4
    assert run(["play", "out/run"]) == 0 and "0 Gatherer" in capsys.readouterr().out
    assert run(["settings", garden]) == 0 and "world.bushes" in capsys.readouterr().out


@pytest.mark.xdist_group("forked commands")
def test_a_run_of_a_script_is_played_again(tmp_path, monkeypatch, capsys):
    script = Path(own_game.__file__).read_text() + SCRIPT
    Path("berries.py").write_text(script)
    code, _, err = Command([], "berries.py").wait()
    assert code == 0, err
    assert yaml.safe_load(Path("run/config.yaml").read_text())["game"] == "berries.py:Garden"
    monkeypatch.chdir("/")
    assert run(["play", str(tmp_path / "run")]) == 0 and "0 Gatherer" in capsys.readouterr().out


SCRIPT = """
if __name__ == "__main__":
    from abreast import Gridworld, EmptyEntity

    Garden(Gridworld(5, 5, 1, EmptyEntity()), Garden.defaults).run_experiment(animate=False, output_dir="run")
"""


def test_the_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"abreast {abreast.__version__}\n"


@pytest.mark.parametrize(
    ("package", "found", "needed"), [("pydantic", "1.10.2", "2.8"), ("torch", "2.5.1+cu124", "2.6")]
)
def test_a_package_that_is_too_old_ends_every_command_with_where_it_is(package, found, needed, monkeypatch, capsys):
    folder = Path("old", f"{package}-{found}.dist-info")
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {found}\n")
    monkeypatch.syspath_prepend("old")
    with pytest.raises(SystemExit) as end:
        importlib.reload(abreast.cli)
    assert end.value.code == 2
    says = f"abreast: {package} {found} is installed in old, but abreast needs {package} {needed} or newer: run"
    assert says in capsys.readouterr().err


def test_public_names_are_listed():
    assert set(abreast.__all__) <= set(dir(abreast))


# ---- failures: what was typed is right, so the exit code is 1


VILLAIN = """
from own_game import Garden
from villains import RaisesInTraining


class Villainous(Garden):
    harmed = (1,)

    def setup_agents(self):
        super().setup_agents()
        for number in self.harmed:
            agent = self.agents[number]
            agent.model = RaisesInTraining(agent.observation_spec, 4, self.config.model, self.agent_seed(number))


class Hopeless(Villainous):
    harmed = (0, 1)


class Faulty(Garden):
    def populate_environment(self):
        super().populate_environment()
        assert not getattr(self, "ready", False), "no second time"
        self.ready = True
"""


@pytest.fixture
def villain():
    name = f"villain_{next(numbers)}"
    Path(f"{name}.py").write_text(VILLAIN)
    yield f"{name}.py"
    sys.modules.pop(name, None)


PARALLEL = [
    "--parallel",
    "--epochs",
    "8",
    "multiprocessing.max_restarts=0",
    "multiprocessing.num_workers=2",
    "multiprocessing.workers=processes",
]


@pytest.mark.xdist_group("system")
def test_a_learner_that_is_given_up_is_named_at_once_and_at_the_end(villain, capsys):
    assert run(["train", f"{villain}:Villainous", *PARALLEL, "--output", "run"]) == 1
    printed = capsys.readouterr()
    assert "The run folder is run" in printed.out
    lines = printed.err.splitlines()
    assert lines[-1].startswith(
        "abreast: agent 1 was given up, the others finished (run/log.txt has the stack): learner 1 of"
    )
    assert any(line.startswith("error: agent 1 is not trained any more") for line in lines[:-1])
    assert "a villain divides by zero" in lines[-1] and "Traceback" not in printed.err
    assert "in train_step" in Path("run/log.txt").read_text()


@pytest.mark.xdist_group("system")
def test_when_every_learner_is_given_up_the_stack_is_shown(villain, capsys):
    assert run(["train", f"{villain}:Hopeless", *PARALLEL, "--output", "run"]) == 1
    printed = capsys.readouterr().err
    assert "in train_step" in printed
    assert printed.splitlines()[-1].startswith("abreast: every learner has been given up; the first: learner ")


@pytest.mark.parametrize("shown", [["-q"], []])
def test_a_loss_that_is_not_finite_is_one_message_at_the_end_and_the_exit_code_is_1(shown, capsys):
    own = [
        "model.algorithm=unfit_models:LosesNaN",
        "model.batch_size=8",
        "--epochs",
        "3",
        "--no-animate",
        "--output",
        "run",
    ]
    assert run(["train", "treasurehunt", "--agents", "2", *own, *shown]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("abreast: ")]
    assert len(told) == 1 and "not a finite number (agent 0 since epoch 0, agent 1 since epoch 0)" in told[0]


READS = """
import gymnasium
from abreast import DQN


class Reads(DQN):
    def {method}(self, *given, **named):
        return open("nowhere")


class Missing(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return open("nowhere")
"""


@pytest.mark.parametrize(
    ("method", "arguments", "agent"),
    [
        ("take_actions", ["treasurehunt", "model.algorithm=own/reads.py:Reads"], ["(abreast: agent 0 (Reads))"]),
        ("train_step", ["treasurehunt", "model.algorithm=own/reads.py:Reads"], ["(abreast: agent 0 (Reads))"]),
        ("close", ["gymnasium:site-packages/reads.py:Missing"], []),
    ],
)
def test_an_oserror_in_a_users_code_is_raised_with_its_place_and_agent(method, arguments, agent):
    for folder in ("own", "site-packages"):
        Path(folder).mkdir()
        Path(folder, "reads.py").write_text(READS.format(method=method))
    with pytest.raises(FileNotFoundError) as caught:
        run(["train", *arguments, "--agents", "1", "--epochs", "2", "--no-animate", "--output", "run"])
    assert caught.traceback[-1].path.name == "reads.py"
    assert getattr(caught.value, "__notes__", [])[:1] == agent


def test_an_error_of_the_game_is_shown_with_what_became_of_the_run(villain, capsys):
    with pytest.raises(AssertionError, match="no second time"):
        run(["train", f"{villain}:Faulty", "--output", "run"])
    assert capsys.readouterr().err == "abreast: Stopped after 0 epochs; nothing was kept.\n"
    assert not Path("run").exists()


# ---- what can be looked at


def test_settings_are_listed_with_their_meaning(capsys):
    assert run(["settings", "treasurehunt", "experiment.epochs=7"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["experiment.epochs", "7", "Episodes"] for line in printed), printed
    assert "world.bone_value" in " ".join(printed).split()


@pytest.mark.parametrize("game", list_games())
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_setting_says_what_it_means(game, algorithm):
    for key, _, meaning in explain(find_game(game).configure(None, [f"model.algorithm={algorithm}"])):
        assert meaning.endswith((".", ".)")), key


def test_games_are_listed(capsys):
    assert run(["games"]) == 0
    printed = capsys.readouterr().out
    for name in ("cleanup", "staghunt", "tag", "treasurehunt"):
        assert name in printed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.xdist_group("forked commands")
def test_a_signal_ends_the_run_with_a_checkpoint_and_says_how_to_go_on(number, code):
    metrics = Path("run/metrics.jsonl")
    command = Command(
        ["train", "treasurehunt", *SMALL, "experiment.epochs=100000", "--output", "run"], "my bin/abreast"
    )
    command.wait_for_lines(metrics, 3)
    exit_code, said, err = command.end(number)
    assert exit_code == code, err
    assert "Traceback" not in err
    told = r"Stopped after (\d+) epochs?; what was .* is in run\. To go on: 'my bin/abreast' train --resume run\n"
    stopped = re.fullmatch(told, said)
    assert stopped, said
    epochs = int(stopped[1])
    assert [path.name for path in Path("run/checkpoints").iterdir()] == [f"epoch_{epochs:06d}"]
    assert len([json.loads(line) for line in metrics.read_text().splitlines()]) == epochs
    assert run(["train", "--resume", "run", "--episodes", str(epochs + 2)]) == 0
    assert [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()] == list(range(epochs + 2))


# ---- what is printed to be typed


def test_what_is_printed_to_type_next_works_as_printed(trained, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(Path(abreast.__file__).parent / "__main__.py")])  # python -m abreast
    assert run(["train", "--resume", str(trained[0])]) == 0
    said = capsys.readouterr().out
    assert said == "Nothing is missing: all 2 epochs are there. To go on, give a larger total, as in --epochs 3.\n"
    assert run(["eval", "nowhere"]) == 2
    printed = re.search("`(.* train)`", capsys.readouterr().err)[1]
    done = subprocess.run(f"{printed} --help", shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--steps" in done.stdout


@pytest.mark.parametrize(
    ("called", "is_on_path", "program"),
    [
        (".venv/bin/abreast", False, ".venv/bin/abreast"),
        (".venv/bin/abreast", True, "abreast"),
        ("my bin/abreast", False, "'my bin/abreast'"),
        ("pytest", False, "abreast"),
        ("abreast/__main__.py", False, f"{shlex.quote(sys.executable)} -m abreast"),
    ],
)
def test_commands_are_printed_as_this_one_was_called(called, is_on_path, program, monkeypatch):
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr("shutil.which", lambda name: str(Path(called).absolute()) if is_on_path else None)
    assert as_typed("Go on: abreast play run (abreast is fine)") == f"Go on: {program} play run (abreast is fine)"


def test_the_help_is_grouped_by_task_in_the_order_in_which_a_user_meets_commands(capsys):
    assert run(["--help"]) == 0
    printed = capsys.readouterr().out
    words = ["Train agents in games", *COMMANDS[:9], "Play text", *COMMANDS[9:13], "For both", *COMMANDS[13:]]
    places = [re.search(rf"^\W+ {word}\b", printed, re.MULTILINE).start() for word in words]
    assert places == sorted(places)


@pytest.mark.parametrize("arguments", [["settings", "treasurehunt"], ["settings", "rollout"], ["envs", "webshop"]])
def test_no_key_is_broken_where_the_output_is_no_terminal(arguments, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    assert run(arguments) == 0
    table = capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]
    assert len(table) > 5 and all(re.match(r" [a-z_]+(\.[a-z_0-9]+)* +\S.* +\S", line) for line in table), table


def test_settings_of_rollouts_are_listed_with_those_of_prompts(capsys):
    Path("mine.yaml").write_text("es_manager: {max_workers: 3}\ntrainer: {theirs: 1}")
    assert run(["settings", "rollout", "context.max_words=7", "--config", "mine.yaml"]) == 0
    printed = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert printed["context.max_words"] == "7" and printed["es_manager.max_workers"] == "3"
    assert printed["seed.train"] == "10000" and printed["context.texts.instruction"].startswith('"{task}\\n')


# ---- rollouts
# ---- rollouts

HERE = "es_manager.use_multiprocessing=false"


def trajectories(folder):
    return [json.loads(line) for line in Path(folder, "trajectories.jsonl").read_text().splitlines()]


def test_a_rollout_shows_what_episodes_came_to_and_keeps_them(capsys):
    assert run(["rollout", "SimpleSokoban", HERE, "--episodes", "6", "--group-size", "2", "--output", "run"]) == 0
    printed = capsys.readouterr()
    figures = dict(line.rsplit(maxsplit=1) for line in printed.out.splitlines()[1:-1] if "ms" not in line)
    names = ["episodes", "success", "pass@2", "reward", "score", "invalid actions", "actions per episode"]
    assert [name.strip() for name in figures] == [*names, "turns per second", "timeouts"] and figures[
        " episodes"
    ] == "6"
    assert "latency p50" in printed.out and "latency p95" in printed.out
    assert "The run folder is run" in printed.out
    assert printed.err.splitlines()[-1].startswith("episodes 6/6  success ")
    lines = trajectories("run")
    assert sorted((line["episode"], line["group_id"], line["seed"]) for line in lines) == [
        (number, number // 2, 10_000 + number // 2) for number in range(6)
    ]
    assert all(line["terminated"] and line["tag"] == "SimpleSokoban" for line in lines)
    assert {len(line["history"][0]["state"].splitlines()) for line in lines} == {6}
    assert sum(entry.get("reward", 0) for entry in lines[0]["history"]) == pytest.approx(lines[0]["reward"])


def test_more_episodes_than_slots_are_played_one_after_the_other():
    arguments = ["rollout", "Bandit", HERE, "--episodes", "27", "--group-size", "3", "--slots", "8", "--output", "run"]
    assert run(arguments) == 0
    lines = trajectories("run")
    assert sorted(line["episode"] for line in lines) == list(range(27))
    assert {line["seed"] for line in lines} == set(range(10_000, 10_009))


def test_a_rollout_is_the_same_again_from_its_seed_or_its_own_config():
    arguments = ["rollout", "frozen_lake", HERE, "--episodes", "9"]
    assert run([*arguments, "--seed", "3", "env.size=5", "--max-actions", "4", "--output", "one"]) == 0
    assert run([*arguments, "seed.train=3", "env.size=5", "--max-actions", "4", "--output", "two"]) == 0
    again = shlex.split(Path("one/config.yaml").read_text().splitlines()[0].removeprefix("# abreast"))
    assert run([*again, "--output", "three"]) == 0
    assert run([*arguments, "--seed", "4", "env.size=5", "--max-actions", "4", "--output", "four"]) == 0
    one, two, three, four = (Path(name, "trajectories.jsonl").read_text() for name in ("one", "two", "three", "four"))
    assert one == two == three != four
    lines = trajectories("one")
    assert {line["history"][0]["actions_left"] for line in lines} == {4}
    assert {len(line["history"][0]["state"].splitlines()) for line in lines} == {5}


def test_a_rollout_takes_tags_from_its_file_and_settings_from_the_command_line():
    Path("mine.yaml").write_text(
        "seed:\nes_manager: {format_penalty: 0.5}\n"
        "custom_envs: {My lake: {env_type: frozen_lake, max_actions_per_traj: 3, env_config: {size: 7, p: 1.0}}}"
    )
    arguments = ["rollout", "My lake", HERE, "env.size=6", "--config", "mine.yaml", "--episodes", "2"]
    assert run([*arguments, "--output", "run"]) == 0
    kept = yaml.safe_load(Path("run/config.yaml").read_text())
    assert kept["custom_envs"]["My lake"]["env_config"] == {"size": 6, "p": 1.0}
    assert kept["es_manager"]["format_penalty"] == 0.5
    assert trajectories("run")[0]["history"][0]["actions_left"] == 3
    assert run(arguments) == 0
    assert len(list(Path("runs").glob("my-lake-*-1/trajectories.jsonl"))) == 1


def test_a_rollout_takes_the_preset_of_its_file_and_the_tags_of_that_preset():
    Path("theirs.yaml").write_text("preset: ragen")
    assert run(["rollout", "BanditTest", HERE, "--config", "theirs.yaml", "--episodes", "2", "--output", "run"]) == 0
    kept = yaml.safe_load(Path("run/config.yaml").read_text())
    assert kept["preset"] == "ragen" and kept["custom_envs"]["BanditTest"]["env_config"] == {"split": "test"}


def test_pictures_are_kept_as_files():
    assert run(["rollout", "VisualSokoban", HERE, "--episodes", "1", "--output", "run"]) == 0
    history = trajectories("run")[0]["history"]
    names = [name for entry in history for name in entry["images"]]
    assert len(names) == len(history) == len(list(Path("run/images").iterdir()))
    assert all(Path("run", name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_episodes_that_cannot_go_on_are_told_of(capsys):
    villain = [
        "rollout",
        "villain_envs:RaisesInStep",
        HERE,
        "env.harm_seed=10001",
        "--episodes",
        "3",
        "--output",
        "run",
    ]
    assert run(villain) == 1  # what was typed is right
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith(
        "abreast: 1 of 3 episodes could not go on; the first: ZeroDivisionError: a villain divides by zero"
    )
    assert "The run folder is run" in printed.out and "cannot go on" in Path("run/log.txt").read_text()
    log = Path("run/log.txt").read_text()
    assert log.count('raise ZeroDivisionError("a villain') == 1 and "villain_envs.py" in log
    assert any("divides by zero" in str(each["history"][-2]["info"]) for each in trajectories("run"))


@pytest.mark.parametrize(("way", "place"), [("os._exit", "auto"), ("sys.exit", "false")])
def test_an_environment_that_ends_the_program_ends_its_episode_alone(way, place, capsys):
    villain = ["rollout", "villain_envs:EndsTheProgram", f"es_manager.use_multiprocessing={place}", f"env.flag={way}"]
    assert run([*villain, "env.harm_seed=10001", "--episodes", "3", "--output", "run"]) == 1
    printed = capsys.readouterr()
    assert "1 of 3 episodes could not go on; the first: SystemExit: " in printed.err and "Stopped" not in printed.out
    assert sum(line["error"] is None for line in trajectories("run")) == 2


@pytest.mark.parametrize("end", ["sys.exit(3)", "os._exit(3)", "raise ValueError('\\x1b[2J')"])
def test_an_environment_that_ends_the_program_when_it_is_made_gets_a_sentence(end, capsys):
    name = f"ends_{end[:2]}"
    Path(f"{name}.py").write_text(
        f"import os, sys\nclass Env:\n    reset = step = id\n    def __init__(self):\n        {end}\n"
    )
    assert run(["rollout", f"{name}:Env", HERE, "--output", "run"]) == 2
    told = capsys.readouterr().err
    assert f"{name}:Env cannot be made: it raised " in told and f"{name}.py, line 5" in told and "\x1b" not in told
    assert not Path("run").exists()


def test_what_an_environment_tells_a_terminal_to_do_is_shown_and_not_done(capsys):
    villain = ["rollout", "villain_envs:SaysEscapes", HERE, "env.harm_seed=10001", "--episodes", "3"]
    assert run([*villain, "--output", "run", "--verbose"]) == 1
    for command in (
        ["trajectories", "run"],
        ["trajectories", "run", "--show", "1"],
        ["envs", "villain_envs:SaysEscapes"],
    ):
        assert run(command) == 0
    printed = capsys.readouterr()
    log = Path("run/log.txt").read_text()
    assert "\ufffd[8mhidden" in printed.err and "\ufffd[2J0 steps" in printed.out and "\ufffd[8mhidden" in log
    assert "\x1b" not in printed.err + printed.out + log
    (line,) = (line for line in trajectories("run") if line["error"])
    assert "\x1b[8mhidden" in line["error"] and line["history"][0]["state"].startswith("\x1b[2J")


def test_a_success_that_the_environment_never_says_is_a_dash_everywhere(capsys):
    assert run(["rollout", "villain_envs:SaysNoSuccess", HERE, "--episodes", "2", "--output", "run"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"success +– *\n", printed.out)
    assert printed.err.count('No episode of villain_envs:SaysNoSuccess ended with info["success"]') == 1
    assert [line["success"] for line in trajectories("run")] == [None, None]
    assert run(["trajectories", "run", "--sort", "-success", "--export", "rows.jsonl"]) == 0
    assert [json.loads(row)["success"] for row in Path("rows.jsonl").read_text().splitlines()] == [None, None]
    for wanted in ("--success", "--failed"):
        assert run(["trajectories", "run", wanted]) == 0
    assert run(["trajectories", "run"]) == 0
    told = capsys.readouterr().out
    assert told.count("0 of 2 episodes\n") == 2 and "2 of 2 episodes, success –, reward" in told


def test_one_that_cannot_even_be_made_leaves_nothing_behind(capsys):
    assert run(["rollout", "countdown", HERE, "env.data_path=none.jsonl", "--episodes", "3", "--output", "run"]) == 2
    assert capsys.readouterr().err == "abreast: cannot read the data file none.jsonl: No such file or directory.\n"
    Path("mine.py").write_text(
        "class Env:\n    step = reset = None\n    def __init__(self): raise ValueError('no way')\n"
    )
    assert run(["rollout", "mine:Env", "--output", "run"]) == 2
    told = "abreast: mine:Env cannot be made: it raised ValueError: no way (mine.py, line 3).\n"
    assert capsys.readouterr().err == told
    assert not Path("run").exists()


def test_an_environment_of_ones_own_is_named_by_its_module(capsys):
    Path("own_envs.py").write_text(OWN)
    assert run(["rollout", "own_envs:Own", "env.start=7", "--episodes", "2", "--output", "run"]) == 0
    assert [each["history"][0]["state"] for each in trajectories("run")] == ["7", "7"]
    Path("own.yaml").write_text("custom_envs: {Mine: {env_type: 'own_envs:Own', env_config: {start: 9}}}")
    arguments = ["rollout", "Mine", "--config", "own.yaml", "--episodes", "2", "es_manager.use_multiprocessing=true"]
    assert run([*arguments, "--output", "other"]) == 0
    assert {each["history"][0]["state"] for each in trajectories("other")} == {"9"}
    capsys.readouterr()
    assert run(["envs", "own_envs:Own"]) == 0 and "max_actions_per_traj" in capsys.readouterr().out


OWN = """
import gymnasium


class Own(gymnasium.Env):
    metadata = {"render_modes": ["text"]}

    def __init__(self, start=None, render_mode="text"):
        self.start, self.render_mode = start, render_mode
        self.action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = gymnasium.spaces.Text(9, charset="0123456789")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = self.start or int(self.np_random.integers(10**6))
        return self.render(), {}

    def step(self, action):
        told = {"success": True, "action_is_valid": True, "action_is_effective": False}
        return self.render(), 1.0, False, False, told

    def render(self):
        return str(self.number)
"""


def test_a_tag_can_be_looked_at(capsys):
    assert run(["envs", "SimpleSokoban"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "env.num_boxes 1 " in printed and "max_actions_per_traj 10" in printed
    assert "One of text, rgb_array." in printed


def test_the_first_prompt_of_a_tag_is_shown(capsys):
    assert run(["envs", "SafeFrozenLake"]) == 0
    printed = capsys.readouterr().out
    assert "The first prompt (seed 10000):\n\n[system]\n" in printed and printed.endswith(
        f"{first_prompt('SafeFrozenLake')}\n"
    )
    own = "seed: {train: 5}\ncontext: {enable_think: false}\n"
    own += "custom_envs: {Mine: {env_type: sokoban, env_instruction: Go on.}}"
    Path("own.yaml").write_text(own)
    assert run(["envs", "Mine", "--config", "own.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "(seed 5)" in printed and "\nGo on.\n\nThe state is the room" in printed and "<think>" not in printed


def test_settings_are_shown_where_there_is_no_prompt(capsys):
    Path("own.yaml").write_text("custom_envs: {Mine: {env_type: countdown, env_config: {data_path: none.jsonl}}}")
    assert run(["envs", "Mine", "--config", "own.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "env.data_path" in printed and "The first prompt cannot be shown: " in printed


def test_the_configuration_of_a_run_tells_the_instruction():
    assert run(["rollout", "Bandit", HERE, "--episodes", "2", "--output", "run"]) == 0
    kept = yaml.safe_load(Path("run/config.yaml").read_text())
    assert kept["custom_envs"]["Bandit"]["env_instruction"].startswith("There are two arms.")
    assert kept["context"]["enable_think"] is True
    again = ["rollout", "Bandit", "--config", "run/config.yaml", "custom_envs.Bandit.env_instruction=Pull.", HERE]
    assert run([*again, "--episodes", "2", "--output", "again"]) == 0
    assert yaml.safe_load(Path("again/config.yaml").read_text())["custom_envs"]["Bandit"]["env_instruction"] == "Pull."


def test_a_solver_plays_well(capsys):
    assert run(["rollout", "Countdown", HERE, "--policy", "solver", "--episodes", "8"]) == 0
    assert "100.0%" in capsys.readouterr().out


@pytest.mark.xdist_group("system")
def test_verify_tells_how_many_turns_were_verified(capsys):
    arguments = ["rollout", "Bandit", "--episodes", "8", "--verify", "es_manager.max_workers=2"]
    assert run([*arguments, "es_manager.use_multiprocessing=true"]) == 0
    told = "16 turns of workers, starts included, were taken in the main process too, with equal results"
    assert told in capsys.readouterr().out
    assert run([*arguments, HERE]) == 0
    assert "no turn was verified" in capsys.readouterr().out


def test_a_quiet_run_prints_what_came_of_it_and_debug_says_what_it_checks(capsys):
    assert run(["train", "treasurehunt", *SMALL, "-q", "--parallel", "--output", "quiet"]) == 0
    told = capsys.readouterr()
    assert told.err == "" and told.out.splitlines()[1:] == ["The run folder is quiet"]
    assert run(["train", "treasurehunt", *SMALL, "--parallel", "--debug", "--output", "checked"]) == 0
    assert "debug is on: everything runs in one thread" in capsys.readouterr().err
    lines = [Path(folder, "metrics.jsonl").read_text().splitlines() for folder in ("quiet", "checked")]
    first, second = ([{**json.loads(line), "time": 0} for line in each] for each in lines)
    assert first == second and "debug is on" in Path("checked/log.txt").read_text()
    assert "workers: auto" in Path("checked/config.yaml").read_text()  # a run that goes on is not debugged


def test_a_rollout_is_debugged_in_this_process_with_the_same_episodes(capsys):
    arguments = ["rollout", "FrozenLake", "--episodes", "4", "es_manager.use_multiprocessing=true"]
    assert run([*arguments, "--output", "one", "-q", HERE]) == 0
    assert "episodes" not in capsys.readouterr().err
    assert run([*arguments, "--output", "two", "--debug"]) == 0
    told = capsys.readouterr()
    assert "every turn is taken twice" in told.err and "turns, starts included, were taken" in told.out

    def plain(folder):
        lines = sorted(trajectories(folder), key=lambda line: line["episode"])
        return [{key: line[key] for key in ("seed", "reward", "num_actions", "history")} for line in lines]

    assert plain("one") == plain("two")
    assert run(["rollout", "villain_envs:ForgetsItsSeed", "--episodes", "2", "--debug"]) == 2
    assert "turn 0: it and a copy, in the main process, disagree" in capsys.readouterr().err


@pytest.mark.xdist_group("forked commands")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_rollout_and_keeps_what_is_finished(number, code):
    arguments = ["rollout", "FrozenLake", "es_manager.use_multiprocessing=true", "es_manager.max_workers=1"]
    command = Command([*arguments, "--episodes", "10000000", "--output", "run"])
    command.wait_for_lines(Path("run/trajectories.jsonl"), 3)
    exit_code, out, err = command.end(number)
    assert exit_code == code, err
    assert "Traceback" not in err
    lines = trajectories("run")
    assert len({line["episode"] for line in lines}) == len(lines) >= 3
    how = "interrupted" if number == signal.SIGINT else "terminated"
    assert f"Stopped after {len(lines)} episodes ({how}); these are kept. To go on: abreast rollout --resume run" in out
    assert f"after {len(lines)} episodes" in Path("run/log.txt").read_text()


def test_environments_are_listed_and_a_broken_one_does_not_hide_the_others(capsys, monkeypatch):
    points = [EntryPoint("broken", "no_such_module:KIND", KINDS.group)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == KINDS.group else [])
    monkeypatch.setattr("abreast.rollouts.registry.registered", {})  # what other tests registered makes the table wider
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["envs"]) == 0
    printed = capsys.readouterr().out
    assert "does not load" in printed and "webshop" in printed and "LargerSokoban" in printed
    assert any(line.split()[:3] == ["bandit", "Bandit", "yes"] for line in printed.splitlines())
    assert any(line.split()[:3] == ["metamathqa", "MetaMathQA", "no"] for line in printed.splitlines())
    assert run(["envs", "bandit"]) == 0
    assert ["env.hi_probability", "0.25", "Chance"] in [
        line.split()[:3] for line in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.parametrize("name", KINDS.names())
def test_every_setting_of_an_environment_says_what_it_means(name):
    for key, _, meaning in explain(find_kind(name).config.parse({})):
        assert meaning.endswith("."), key


def test_check_says_what_is_wrong_and_what_to_do(capsys):
    Path("my_own_envs.py").write_text("from unfit_envs import RaisesOnJunk\nmake = lambda config: RaisesOnJunk()\n")
    assert run(["check", "my_own_envs:make"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "note     pickling: it cannot be pickled" in "\n".join(lines)
    assert "wrong    junk actions: the action '' raised KeyError" in "\n".join(lines)
    assert sum(line.startswith("ok  ") for line in lines) >= 5


def test_check_says_what_is_wrong_with_a_model_or_a_file(capsys):
    Path("my_model.py").write_text("import unfit_models\nclass Mine(unfit_models.ChoosesHalves): pass\n")
    Path("my_parts.py").write_text("from unfit_models import Fit\nclass One(Fit): pass\nclass Two(Fit): pass\n")
    Path("my_nothing.py").write_text("x = 1\n")
    assert run(["check", "my_model.py"]) == 2
    assert "wrong    actions: Mine.take_action returned 2.5" in capsys.readouterr().out
    assert run(["check", "my_parts.py"]) == 2
    assert "my_parts.py has One, Two: name what to check, as in my_parts.py:One." in capsys.readouterr().err
    assert run(["check", "my_nothing.py"]) == 2
    assert "my_nothing.py has no game, model or environment" in capsys.readouterr().err


@pytest.mark.parametrize(("base", "found"), [("unfit_envs.Fit", "rollout"), ("zoo_envs.Meeting", "pettingzoo")])
def test_check_finds_the_only_environment_of_a_file(base, found, monkeypatch, capsys):
    name = f"my_{found}_file"
    Path(f"{name}.py").write_text(f"import {base.partition('.')[0]}\nclass Mine({base}): pass\n")
    told = [Verdict("found", "ok", found)]
    monkeypatch.setattr("abreast.cli.check.check_environment", lambda *_: iter(told if found == "rollout" else ()))
    monkeypatch.setattr(AdaptedGame, "check", lambda self, settings: iter([told[0]._replace(remark=self.target)]))
    assert run(["check", f"{name}.py"]) == 0
    assert capsys.readouterr().out.startswith(f"ok       found: {found}")


def test_check_knows_every_outcome(monkeypatch, capsys):
    outcomes = get_args(Verdict.__annotations__["outcome"])
    verdicts = [Verdict("one", outcome, "told") for outcome in outcomes]
    monkeypatch.setattr("abreast.cli.check.check_environment", lambda *_: iter(verdicts))
    assert run(["check", "bandit"]) == 2
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*outcomes]


def test_settings_about_a_word_are_listed_alone(capsys):
    assert run(["settings", "treasurehunt", "epsilon", "model.epsilon=0.3"]) == 0
    keys = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert ["model.epsilon", "0.3"] in keys and len(keys) < 8
    assert run(["settings", "rollout", "WORKERS"]) == 0
    assert "es_manager.max_workers" in capsys.readouterr().out
    assert run(["settings", "treasurehunt", "zebra"]) == 2
    assert "no setting of treasurehunt has 'zebra' in its key or meaning." in capsys.readouterr().err


def test_a_value_that_is_absent_has_one_name_in_settings(capsys):
    assert run(["settings", "treasurehunt"]) == run(["settings", "rollout"]) == 0
    printed = capsys.readouterr().out
    assert " null " in printed and "none:" not in printed and "likewise" not in printed


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("tag", "game tag"),
        ("other_game.py", "game mine"),
        ("other_game.py:Mine", "game mine"),
        ("other_game:Mine", "game mine"),
        ("random", "model RandomModel"),
        ("other_model.py", "model Mine"),
        ("other_model.py:Mine", "model Mine"),
        ("other_model:Mine", "model Mine"),
    ],
)
def test_check_finds_games_and_models_by_name_and_by_file(target, what, monkeypatch, capsys):
    def verdicts_of(kind):
        return lambda thing, settings=(): iter(
            [Verdict("found", "ok", f"{kind} {getattr(thing, 'name', None) or thing.__name__}{list(settings) or ''}")]
        )

    for kind in ("game", "model"):
        monkeypatch.setattr(f"abreast.training.check.check_{kind}", verdicts_of(kind))
    Path("other_game.py").write_text("from unfit_games import *\nclass Mine(RewardsWithNaN): pass\n")
    Path("other_model.py").write_text("import unfit_models\nclass Mine(unfit_models.ChoosesHalves): pass\n")
    for name in ("other_game", "other_model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert run(["check", target]) == 0
    assert capsys.readouterr().out == f"ok       found: {what}\n"
    if what.startswith("game"):
        assert run(["check", target, "model.gamma=0.5"]) == 0
        assert capsys.readouterr().out == f"ok       found: {what}['model.gamma=0.5']\n"


def test_rollouts_and_help_do_not_wait_for_torch():
    bandit = ["rollout", "Bandit", HERE, "--episodes", "2"]
    commands = [["envs"], bandit, ["check", "bandit"], ["settings", "rollout"], ["bench", "--help"], ["--help"]]
    code = f"""import sys; from abreast.cli import run
for command in {commands!r}:
    assert run(command) == 0 and 'torch' not in sys.modules, command"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_in_a_command_that_keeps_nothing_is_no_traceback(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_rollouts, "list_kinds", interrupted)
    assert run(["envs"]) == 130


def test_what_a_run_says_of_its_end_is_printed_with_a_full_disk_and_used_up_memory(monkeypatch, capsys):
    for error, told in (
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device: what was written until now is kept.",
        ),
        (
            MemoryError(),
            "the memory is used up: what was written until now is kept. Raise its limit, or run less at a time.",
        ),
    ):
        error.add_note("Stopped after 3 epochs. To go on: abreast train --resume run")

        ours = {"error": error}  # a line of this file would be the user's own code
        exec(compile("def fails():\n    raise error", abreast.__file__, "exec"), ours)
        monkeypatch.setattr(cli_rollouts, "list_kinds", ours["fails"])
        assert run(["envs"]) == 2
        assert (
            capsys.readouterr().err == f"abreast: {told} Stopped after 3 epochs. To go on: abreast train --resume run\n"
        )


FULL = "abreast: No space left on device: what was written until now is kept.\n"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")


@needs_full
def test_a_full_disk_is_one_sentence_if_it_is_met_at_the_end():
    command = [sys.executable, "-c", "import sys; from abreast.cli import run; sys.exit(run(['envs']))"]
    surroundings = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=surroundings)
    assert (done.returncode, done.stderr) == (2, FULL)


@needs_full
def test_a_full_disk_is_one_sentence_if_it_is_met_while_printing(monkeypatch, capsys):
    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["envs"]) == 2
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.flush()
    assert capsys.readouterr().err == FULL
