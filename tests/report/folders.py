"""Run folders as runs leave them, by hand: small, and with known figures."""

import json

import yaml

NASTY = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"> {{data}}'
"""What must stay text wherever it comes from."""


def write_training(folder, epochs=30, agents=2, seed=0, game="treasurehunt", names=None, shift=0.0, more=""):
    """Agent a has the reward e + 10 a + shift in epoch e. `more` ends the file of metrics."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"game": game, "experiment": {"epochs": epochs, "seed": seed}, "world": {"note": NASTY}}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    lines = []
    for epoch in range(epochs):
        rewards = [epoch + 10 * agent + shift for agent in range(agents)]
        losses = [None] * agents if epoch == 0 else [1 / epoch] * agents
        record = {"epoch": epoch, "reward": sum(rewards), "reward_per_agent": rewards, "loss": losses[0]}
        record |= {"loss_per_agent": losses, "learning": [{"loss": loss, "entropy": 0.5} for loss in losses]}
        record |= {"epsilon": 0.1, "steps": 50 * (epoch + 1), "agent_steps": 100 * (epoch + 1), "updates": epoch}
        record["metrics"] = {"gems": epoch}
        record["time"] = {"elapsed_s": 2.0 * (epoch + 1), "restarts": 3, "lag_per_agent": [1] * agents}
        lines.append(json.dumps({**record, **({"agents": names} if names else {})}) + "\n")
    (folder / "metrics.jsonl").write_text("".join(lines) + more)
    (folder / "log.txt").write_text(
        f"2026-01-02 03:04:05,678 INFO begins\n2026-01-02 03:04:06,000 WARNING learner of agent 1 died: {NASTY}\n"
        f"Traceback: its stack\n2026-01-02 03:05:00,000 INFO finished after {epochs} epochs\n"
    )


def write_rollout(folder, episodes=4, state=NASTY, silent="", failed=()):
    """Every second episode is of the tag Lake; the reward is the number of the episode, every third succeeds.

    The environment of the tag `silent` never says its success; these episodes `failed`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rollout.yaml").write_text("policy: openai\n")
    lines = []
    for number in range(episodes):
        said = f"<think>plan {number}</think><answer>Up</answer>"
        chat = [{"role": "system", "content": "rules"}, {"role": "user", "content": f"State: {state}"}]
        line = {"episode": number, "group_id": number, "tag": ("Sokoban", "Lake")[number % 2], "seed": 100 + number}
        line |= {"reward": number, "penalty": -0.5, "score": number - 0.5, "success": number % 3 == 0, "error": None}
        line |= {"success": None} if line["tag"] == silent else {}
        line |= {"success": False, "error": "it broke"} if number in failed else {}
        line |= {"num_actions": 1, "num_given": 2, "num_invalid": 1}
        line["tokens"] = {"prompt": 40, "completion": 7, "turns": [[40, 7]]}
        line |= {
            "answers": [said],
            "rewards": [number - 0.5],
            "messages": [*chat, {"role": "assistant", "content": said}],
        }
        turn = {
            "state": state,
            "actions": ["Up"],
            "reward": number,
            "llm_raw_response": said,
            "finish_reason": "length",
        }
        turn |= {"invalid": ["'jump' was not executed"], "info": {"a": 1}}
        lines.append(json.dumps({**line, "prompts": [2], "history": [turn, {"state": "the end"}]}) + "\n")
    (folder / "trajectories.jsonl").write_text("".join(lines))


def write_timeline(folder):
    """An actor that works 6 s and waits 2 of 10, with parts inside, and two calls of a model that overlap."""
    totals = {
        "play": {"count": 2, "seconds": 6.0, "own_seconds": 5.0},
        "see": {"count": 2, "seconds": 1.0, "own_seconds": 1.0},
        "wait": {"count": 1, "seconds": 2.0, "own_seconds": 2.0},
    }
    totals = {name: {**each, "is_wait": name == "wait", "is_async": False} for name, each in totals.items()}
    spans = [
        ("play", "work", 0, 3e6),
        ("see", "work", 1e5, 5e5),
        ("wait", "wait", 3e6, 2e6),
        ("play", "work", 5e6, 3e6),
    ]
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "actor"}}]
    events += [dict(zip(("name", "cat", "ts", "dur"), span, strict=True), ph="X", pid=1, tid=1) for span in spans]
    for number, (begin, end) in enumerate([(0, 2e6), (1e6, 4e6)]):
        call = {"name": "model", "cat": "wait", "id": number, "pid": 1, "tid": 1}
        events += [{**call, "ph": "b", "ts": begin}, {**call, "ph": "e", "ts": end}]
    process = {"name": "actor", "pid": 1, "tid": 1, "started": 0.0, "ended": 10.0, "totals": totals, "dropped": 5}
    about = {"seconds": 10.0, "cores": 2, "processes": [process]}
    (folder / "timeline.json").write_text(json.dumps({"traceEvents": events, "abreast": about}))
