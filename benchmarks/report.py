"""How long reports of large runs take to be written and to be opened in headless Chromium, and how large they are.

    python benchmarks/report.py [--epochs 10000] [--episodes 10000]      needs Chromium and playwright

A page counts as open when its script has run and a frame with it has been drawn.
"""

import argparse
import json
import math
import random
import re
import shutil
import tempfile
import time
from pathlib import Path

from abreast.report import make_page, read_run

AGENTS = 5
OPENED = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"


def write_training(folder: Path, epochs: int) -> None:
    """A run whose metrics have all that those of a parallel run have."""
    rng = random.Random(0)
    (folder / "config.yaml").write_text(f"game: treasurehunt\nexperiment: {{epochs: {epochs}, seed: 0}}\n")
    with (folder / "metrics.jsonl").open("w") as file:
        for epoch in range(epochs):
            rewards = [50 * (1 - math.exp(-epoch / 800)) + rng.gauss(0, 8) for _ in range(AGENTS)]
            learning = [{name: rng.random() for name in ("loss", "mean_value", "gradient_norm")} for _ in range(AGENTS)]
            times = {"elapsed_s": epoch * 0.1, "collect_s": rng.random(), "train_s": rng.random(), "restarts": 0}
            times |= {
                "lag_per_agent": [1] * AGENTS,
                "learner_idle_s": [rng.random()] * AGENTS,
                "agent_steps_per_s": 4e3,
            }
            record = {
                "epoch": epoch,
                "reward": sum(rewards),
                "reward_per_agent": rewards,
                "loss": 1.0,
                "loss_per_agent": [figures["loss"] for figures in learning],
                "learning": learning,
                "epsilon": 0.1,
                "agent_steps": epoch * 500,
                "updates": epoch,
                "updates_per_agent_step": 0.01,
                "metrics": {"gems": rng.random()},
                "time": times,
            }
            file.write(json.dumps(record) + "\n")


def write_rollout(folder: Path, episodes: int) -> None:
    """Episodes of eight turns, with boards and answers of a usual length."""
    rng = random.Random(0)
    (folder / "config.yaml").write_text("seed: {train: 10000}\n")
    (folder / "rollout.yaml").write_text("policy: openai\n")
    system = {"role": "system", "content": "You play a game in turns. " * 10}
    with (folder / "trajectories.jsonl").open("w") as file:
        for number in range(episodes):
            messages, history = [system], []
            for _ in range(8):
                board = "\n".join("".join(rng.choices("_#PXO", k=8)) for _ in range(8))
                thought = " ".join(rng.choices(("up", "down", "box", "wall", "goal"), k=40))
                answer = f"<think>{thought}</think><answer>Up</answer>"
                messages += [{"role": "user", "content": f"State:\n{board}"}, {"role": "assistant", "content": answer}]
                told = {"state": board, "actions": ["Up"], "reward": -0.1, "info": {"success": False}}
                history.append({**told, "llm_raw_response": answer, "llm_response": answer, "finish_reason": "stop"})
            line = dict.fromkeys(("penalty", "num_actions", "num_given", "num_invalid"), 0)
            line |= {"episode": number, "group_id": number // 8, "tag": "SimpleSokoban", "seed": number, "error": None}
            line |= {"reward": rng.random(), "score": rng.random(), "success": rng.random() < 0.3, "truncated": False}
            line |= {"terminated": True, "unanswered": False, "tokens": {"prompt": 900, "completion": 300}, "info": {}}
            answers = [entry["llm_raw_response"] for entry in history]
            line |= {"answers": answers, "rewards": [-0.1] * 8, "messages": messages, "prompts": list(range(2, 18, 2))}
            file.write(json.dumps({**line, "history": [*history, {"state": "end"}]}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=10_000)
    asked = parser.parse_args()
    from playwright.sync_api import expect, sync_playwright

    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, write, count in (
            ("epochs", write_training, asked.epochs),
            ("episodes", write_rollout, asked.episodes),
        ):
            folder = Path(place, name)
            folder.mkdir()
            write(folder, count)
            began = time.perf_counter()
            data = make_page([read_run(folder)]).encode()
            written_s = time.perf_counter() - began
            (folder / "report.html").write_bytes(data)
            opened = []
            for _ in range(3):
                page = browser.new_page()
                page.goto((folder / "report.html").as_uri())
                opened.append(page.evaluate(OPENED) / 1000)
                if name == "episodes":
                    began = time.perf_counter()
                    page.fill("#filter-text", "box wall goal up up")
                    expect(page.locator("#count")).to_have_text(re.compile("^[0-9,]+ of"), timeout=60_000)
                    searched_s = time.perf_counter() - began
                page.close()
            raw = sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".jsonl")
            print(
                f"{count:,} {name}: {raw / 1e6:.1f} MB read and written in {written_s:.2f} s, page {len(data) / 1e6:.1f} MB,"
            )
            print(f"  opened in {min(opened):.2f} to {max(opened):.2f} s")
        print(f"  a text searched for in all episodes in {searched_s:.2f} s")
        browser.close()


if __name__ == "__main__":
    main()
