"""TRL itself, with a tiny model made here."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from abreast.integrations.trl import environment_class, episode_score, rollout_func

pytestmark = pytest.mark.xdist_group("trl")  # its import takes seconds, so the one worker that runs these tests does it
EXAMPLE = Path(__file__).parents[2] / "examples" / "trl_grpo_bandit.py"


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("trl", reason='TRL is not installed: pip install "abreast[trl]"')


@pytest.fixture(scope="module")
def rows():
    datasets = pytest.importorskip("datasets", reason='datasets is not installed: pip install "abreast[trl]"')
    return datasets.Dataset.from_dict({"prompt": [[{"role": "user", "content": "Play."}]] * 4})


@pytest.fixture(scope="module")
def example(real, rows):
    spec = importlib.util.spec_from_file_location("trl_grpo_bandit", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def arguments(real, folder, **more):
    return real.GRPOConfig(
        output_dir=str(folder), max_steps=1, num_generations=2, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        save_strategy="no", use_cpu=True, beta=0.0, disable_tqdm=True, **more,
    )  # fmt: skip


def test_the_example_runs(example):
    logged = example.train(steps=2, groups=2)
    assert len(logged) == 2 and all(-0.11 <= entry["reward"] <= 1.0 for entry in logged)


@pytest.mark.chaos
def test_the_example_improves_its_reward(example):
    rewards = [entry["reward"] for entry in example.train(steps=60)]
    assert sum(rewards[:10]) / 10 < 0.0 and sum(rewards[30:]) / 30 > 0.1


def test_a_trainer_takes_the_masks_and_scores_of_a_rollout_function(real, rows, example, tmp_path):
    tokenizer = example.make_tokenizer([*example.prompts_of_bandit(range(2)), "Dragon"])
    play, seen = rollout_func("Bandit", config=example.CONFIG, use_multiprocessing=False), {}

    def watched(prompts, trainer):
        seen["out"] = play(prompts, trainer)
        return seen["out"]

    class Trainer(real.GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            seen["batch"] = super()._generate_and_score_completions(inputs)
            return seen["batch"]

    trainer = Trainer(
        model=example.make_model(tokenizer), args=arguments(real, tmp_path, max_completion_length=3),
        processing_class=tokenizer, train_dataset=rows, reward_funcs=episode_score, rollout_func=watched,
    )  # fmt: skip
    trainer.train()
    play.close()
    out, batch = seen["out"], seen["batch"]
    seeds = out["episode_seed"]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] and play._episodes.manager.episodes_under_way == 0
    for place, (ids, mask) in enumerate(zip(out["completion_ids"], out["env_mask"], strict=True)):
        assert batch["completion_ids"][place, : len(ids)].tolist() == ids
        assert batch["tool_mask"][place, : len(mask)].tolist() == mask
    assert trainer.state.log_history[0]["reward"] == pytest.approx(sum(out["score"]) / 4, abs=1e-6)


def test_a_trainer_calls_the_tools_of_an_environment(real, rows, example, tmp_path):
    """What the model writes is given here; TRL reads the calls, steps the environments, and asks for their rewards."""
    from transformers.utils import get_json_schema

    folder = Path(real.__file__).parent / "chat_templates"
    config = {"context": {"enable_think": False, "system_prompt": ""}}
    environment = environment_class("FrozenLake", config=config, group_size=2, use_multiprocessing=False)
    schema = get_json_schema(environment().act)["function"]
    assert schema["parameters"]["properties"]["action"]["enum"] == ["Down", "Left", "Right", "Up"]
    call = json.dumps({"name": "act", "arguments": {"action": "Right"}})
    answer = f"<tool_call>\n{call}\n</tool_call><|im_end|>"
    tokenizer = example.make_tokenizer([answer.replace("<|im_end|>", ""), json.dumps(schema)])
    tokenizer.chat_template = (folder / "qwen3.jinja").read_text()
    scores, rounds = [], []

    class Trainer(real.GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *_, **__):
            rounds.append(len(prompt_ids))
            text = answer if len(rounds) <= 2 else "No.<|im_end|>"
            return [tokenizer.encode(text, add_special_tokens=False) for _ in prompt_ids], None

        def _calculate_rewards(self, *given):
            rewards = super()._calculate_rewards(*given)
            scores.extend(
                [env._episode.score, env._episode.seed, env._episode.tally.executed] for env in self.environments
            )
            return rewards

    trainer = Trainer(
        model=example.make_model(tokenizer), args=arguments(real, tmp_path, max_completion_length=2000),
        processing_class=tokenizer,
        train_dataset=rows, environment_factory=environment,
    )  # fmt: skip
    trainer.model.config.max_position_embeddings = 100_000
    trainer.train()
    assert rounds[:2] == [4, 4] and len(rounds) > 2
    assert scores[0][1] == scores[1][1] != scores[2][1] == scores[3][1] and all(executed for _, _, executed in scores)
    logged = trainer.state.log_history[0]
    assert logged["reward"] == pytest.approx(sum(score for score, *_ in scores) / 4, abs=1e-6)
    assert logged["tools/call_frequency"] >= 1.0
