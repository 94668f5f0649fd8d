"""verl itself: its base class, its registry, and its output."""

import asyncio
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

REASON = "verl, or a package that its agent loop imports, is not installed: docs/how-to/trainers.md says which"
loops = pytest.importorskip("verl.experimental.agent_loop.agent_loop", reason=REASON, exc_type=ImportError)

from abreast.errors import RolloutError  # noqa: E402
from abreast.integrations.verl import AbreastAgentLoop  # noqa: E402

pytestmark = pytest.mark.xdist_group("trl")
CONFIG = {"context": {"enable_think": False, "system_prompt": ""}}


@pytest.fixture(scope="module")
def tokenizer():
    spec = importlib.util.spec_from_file_location(
        "trl_grpo_bandit", Path(__file__).parents[2] / "examples" / "trl_grpo_bandit.py"
    )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        pytest.skip(f'the tokenizer of the example needs {error.name}: pip install "abreast[trl]"')
    return module.make_tokenizer([*module.prompts_of_bandit(range(4)), "<answer>Dragon</answer>"])


class Server:
    def __init__(self, tokenizer):
        self.ids = tokenizer.encode("<answer>Dragon</answer><|im_end|>", add_special_tokens=False)

    async def generate(self, request_id, prompt_ids, *, sampling_params, **_):
        from verl.workers.rollout.replica import TokenOutput

        return TokenOutput(token_ids=self.ids, log_probs=[-0.5] * len(self.ids), stop_reason="completed")


def test_a_loop_is_registered_and_makes_an_output(tokenizer):
    target = loops._agent_loop_registry["abreast"]["_target_"]
    assert target == "abreast.integrations.verl.AbreastAgentLoop"
    rollout = SimpleNamespace(response_length=64, prompt_length=512)
    trainer = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))

    async def run():
        loop = AbreastAgentLoop(
            trainer_config=SimpleNamespace(config=trainer), server_manager=Server(tokenizer), tokenizer=tokenizer,
            processor=None, dataset_cls=None, data_config=SimpleNamespace(config={}), tools=SimpleNamespace(tools=[]),
            tag="Bandit", rollouts=CONFIG,
        )  # fmt: skip
        row = {"raw_prompt": [{"role": "user", "content": "Play."}], "index": 3}
        return [await loop.run({"temperature": 1.0, "logprobs": True}, **row) for _ in range(2)]

    one, two = asyncio.run(run())
    assert (
        isinstance(one, loops.AgentLoopOutput) and one.extra_fields["episode_seed"] == two.extra_fields["episode_seed"]
    )
    batch = one.as_dict()
    assert batch["response_mask"].tolist() == [1] * len(batch["responses"]) and one.num_turns == 2
    assert batch["rm_scores"].sum().item() == pytest.approx(one.reward_score) and one.reward_score in (0.0, 1.0)
    assert batch["rollout_log_probs"].tolist() == [-0.5] * len(batch["responses"])


def test_a_tag_that_does_not_exist_is_named(tokenizer):
    async def run():
        loop = AbreastAgentLoop.__new__(AbreastAgentLoop)
        loop._tag, loop._rollouts, loop._seed = "Bandti", None, 0
        await loop.run({}, raw_prompt=[])

    with pytest.raises(RolloutError, match="there is no tag or environment type 'Bandti'"):
        asyncio.run(run())
