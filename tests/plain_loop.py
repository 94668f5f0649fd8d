"""The rules of a rollout in the plainest form: one environment after the other, no processes, nothing shared with the
manager but the environments. What the manager says must be equal to what this says.
"""

from PIL import Image


class PlainLoop:
    """Steps every environment in a loop."""

    def __init__(self, tags, group_size, penalty=0.1):
        """`tags`: for each environment, its `Tag`."""
        self.tags, self.group_size, self.penalty = tags, group_size, abs(penalty)
        self.envs = [tag.kind.env(tag.config) for tag in tags]

    def reset(self, seed):
        count = len(self.envs)
        self.caches, self.left, self.done, self.truncated = (
            [None] * count,
            [0] * count,
            [False] * count,
            [False] * count,
        )
        for env_id in range(count):
            self.begin(env_id, seed + env_id // self.group_size)
        return self.caches

    def begin(self, env_id, seed):
        """An episode in one environment."""
        tag = self.tags[env_id]
        _, info = self.envs[env_id].reset(seed=seed)
        self.left[env_id], self.done[env_id], self.truncated[env_id] = tag.budget, False, False
        self.caches[env_id] = {
            "env_id": env_id, "group_id": env_id // self.group_size, "tag": tag.name, "penalty": 0, "info": info,
            "history": [self.seen(env_id)],
        }  # fmt: skip

    def step(self, inputs):
        for given in inputs:
            self.turn(given)
        return [self.caches[given["env_id"]] for given in inputs if not self.done[given["env_id"]]]

    def turn(self, given):
        env_id = given["env_id"]
        env, lookup, cache = self.envs[env_id], self.tags[env_id].config.action_lookup, self.caches[env_id]
        actions = [(action, action) for action in given["actions"]]
        if lookup is not None:
            numbers = {name.lower(): (number, name) for number, name in lookup.items()}
            actions = [numbers[a.strip().lower()] for a in given["actions"] if a.strip().lower() in numbers]
        total, infos, executed, over = 0.0, {}, [], False
        for action, name in actions[: self.left[env_id]]:
            _, reward, terminated, truncated, info = env.step(action)
            total += reward
            infos.update(info)
            executed.append(name)
            if terminated or truncated:
                over = True
                break
        self.left[env_id] -= max(1, len(executed))
        if len(actions) < len(given["actions"]) or not executed:
            cache["penalty"] -= self.penalty
            cache["history"][-1]["penalty"] = -self.penalty
        if over or self.left[env_id] == 0:
            self.done[env_id] = True
            self.truncated[env_id] = not (over and infos.get("success", False))
        cache["history"][-1].update(
            actions=executed, reward=total, info=infos,
            llm_response=given.get("llm_response", ""), llm_raw_response=given.get("llm_raw_response", ""),
        )  # fmt: skip
        cache["history"].append(self.seen(env_id))
        if self.done[env_id]:
            cache["metrics"] = self.metrics(env_id)

    def metrics(self, env_id):
        tag, *turns = self.tags[env_id].name, *self.caches[env_id]["history"][:-1]
        keys = {key for turn in turns for key, value in turn["info"].items() if isinstance(value, bool | int | float)}
        means = {key: sum(turn["info"].get(key, 0) for turn in turns) / len(turns) for key in keys - {"success"}}
        counts = {"success": not self.truncated[env_id], "num_actions": sum(len(turn["actions"]) for turn in turns)}
        return {f"{tag}/{key}": value for key, value in {**counts, **means}.items()}

    def seen(self, env_id):
        shown = self.envs[env_id].render()
        if isinstance(shown, str):
            return {"state": shown, "actions_left": self.left[env_id]}
        return {"state": "<images>", "images": [Image.fromarray(shown)], "actions_left": self.left[env_id]}
