"""TRL's GRPOTrainer teaches a tiny model, made here from nothing, to play Bandit. Runs on a CPU; nothing is downloaded.

pip install "abreast[trl,plot]"
python examples/trl_grpo_bandit.py --steps 150 --curve bandit.png
"""

import argparse
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

from abreast.integrations.trl import episode_score, rollout_func
from abreast.rollouts import Context, EnvStateManager

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG = {
    "context": {"enable_think": False, "system_prompt": "", "texts": {"instruction": "{actions}"}},
    "custom_envs": {"Bandit": {"env_type": "bandit", "max_actions_per_traj": 1}},
}
"""Short prompts: a model of this size reads few words. An answer is one token, a name, without any tags."""


def make_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """One token for each word, blank or sign of some texts."""
    split = pre_tokenizers.Split(Regex(r"\w+|\s|[^\w\s]"), "isolated")
    words = sorted({word for text in texts for word, _ in split.pre_tokenize_str(text)} | {"\n", "user", "assistant"})
    special = ["<|im_start|>", "<|im_end|>", "<|unknown|>"]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate([*special, *words])}, "<|unknown|>"))
    made.pre_tokenizer, made.decoder = split, decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>",
        unk_token="<|unknown|>", chat_template=TEMPLATE,
    )  # fmt: skip


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Two layers, with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=256, bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip


def prompts_of_bandit(seeds: range) -> list[str]:
    """The texts of first prompts, from which the tokenizer takes its words."""
    with EnvStateManager.for_tag("Bandit", config=CONFIG, use_multiprocessing=False) as manager:
        texts = []
        for seed in seeds:
            with manager.episode(seed=seed) as episode:
                texts += [message["content"] for message in Context(episode.tag).messages(episode.cache)]
    return texts


def train(steps: int, groups: int = 8, seed: int = 0) -> list[dict[str, float]]:
    """Train; returns what TRL logged at each step: `reward` is the mean score of the episodes."""
    set_seed(seed)
    torch.set_num_threads(1)  # more would be slower, for a model of this size
    tokenizer = make_tokenizer(prompts_of_bandit(range(4)))
    rows = Dataset.from_dict({"prompt": [[{"role": "user", "content": "Play."}]] * 64})  # no seed: groups share one
    play = rollout_func("Bandit", config=CONFIG, use_multiprocessing=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=make_model(tokenizer),
            args=GRPOConfig(
                output_dir=folder, max_steps=steps, num_generations=8, per_device_train_batch_size=8 * groups,
                max_completion_length=1, learning_rate=3e-3, logging_steps=1, report_to=[], save_strategy="no",
                use_cpu=True, seed=seed, beta=0.0, scale_rewards="none", disable_tqdm=True,
                warmup_steps=0, lr_scheduler_type="constant",
            ),
            processing_class=tokenizer,
            train_dataset=rows,
            reward_funcs=episode_score,
            rollout_func=play,
        )  # fmt: skip
        try:
            trainer.train()
        finally:
            play.close()
        return [entry for entry in trainer.state.log_history if "reward" in entry]


def draw(logged: list[dict[str, float]], path: Path) -> None:
    """The curve of the scores."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    scores = [entry["reward"] for entry in logged]
    smooth = [sum(scores[max(0, at - 9) : at + 1]) / len(scores[max(0, at - 9) : at + 1]) for at in range(len(scores))]
    figure, axes = pyplot.subplots(figsize=(7, 3.2))
    axes.plot(scores, color="0.8", label="mean score of a step")
    axes.plot(smooth, color="C0", label="of the last 10 steps")
    for level, name in ((0.25, "always the hi arm"), (0.1, "always the lo arm")):
        axes.axhline(level, color="0.5", linestyle=":", linewidth=1)
        axes.text(0, level, name, va="bottom", fontsize=8, color="0.4")
    axes.set(xlabel="step of GRPO", ylabel="score", title="TRL's GRPOTrainer on Bandit, a two-layer model from nothing")
    axes.legend(loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--curve", type=Path)
    given = parser.parse_args()
    told = train(given.steps, seed=given.seed)
    scores = [entry["reward"] for entry in told]
    first, last = scores[:10], scores[len(scores) // 2 :]
    print(
        f"mean score: {sum(first) / len(first):+.3f} in the first 10 steps, {sum(last) / len(last):+.3f} in the last half"
    )
    if given.curve is not None:
        draw(told, given.curve)
