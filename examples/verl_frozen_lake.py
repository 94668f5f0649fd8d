"""Data and settings for verl to train a model on FrozenLake with the agent loop of abreast.

    pip install "abreast[verl,parquet]"
    python examples/verl_frozen_lake.py lake                   # writes lake/train.parquet, val.parquet and agent.yaml
    python -m verl.trainer.main_ppo \\
        data.train_files=lake/train.parquet data.val_files=lake/val.parquet data.return_raw_chat=True \\
        actor_rollout_ref.rollout.agent.agent_loop_config_path=lake/agent.yaml \\
        actor_rollout_ref.rollout.calculate_log_probs=True actor_rollout_ref.rollout.n=8 algorithm.adv_estimator=grpo \\
        actor_rollout_ref.model.path=Qwen/Qwen3-0.6B

The last command needs a GPU. All that it needs of a row is its number: the game itself shows the first state, and the
rollouts of a row share the seed that follows from it.
"""

import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import yaml

TAG = "FrozenLake"


def write(folder: Path, rows: int = 512) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, first in (("train", 0), ("val", rows)):
        listed = [
            {
                "data_source": "abreast",
                "agent_name": "abreast",
                "prompt": [{"role": "user", "content": f"{TAG} {number}"}],
                "reward_model": {"style": "rule", "ground_truth": ""},
                "extra_info": {"index": number, "split": split},
            }
            for number in range(first, first + (rows if split == "train" else rows // 8))
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(listed), folder / f"{split}.parquet")
    agent = {"name": "abreast", "_target_": "abreast.integrations.verl.AbreastAgentLoop", "tag": TAG}
    (folder / "agent.yaml").write_text(yaml.safe_dump([agent], sort_keys=False))


if __name__ == "__main__":
    given = Path(sys.argv[1] if len(sys.argv) > 1 else "lake")
    write(given)
    print(f"{given} has {', '.join(sorted(path.name for path in given.iterdir()))}")
