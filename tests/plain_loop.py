"""The rules of a rollout in the plainest form: one environment after the other, no processes, nothing shared with the
manager but the environments. What the manager says must be equal to what this says.
"""

from PIL import Image


def cut(text):
    """As much of a text as fits into a sentence."""
    return repr(text) if len(repr(text)) <= 80 else f"{repr(text)[:77]}..."


class PlainLoop:
    """Steps every environment in a loop."""

    def __init__(self, tags, group_size, penalty=0.1):
        """`tags`: for each environment, its `Tag`."""
        self.tags, self.group_size, self.penalty = tags, group_size, abs(penalty)
        self.envs = [tag.kind.env(tag.config) for tag in tags]
        self.counts = {}

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
        self.counts[env_id] = []  # of each turn: actions given, and how many of them were invalid
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
        actions, unknown = [(action, action) for action in given["actions"]], []
        if lookup is not None:
            numbers = {name.lower(): (number, name) for number, name in lookup.items()}
            actions = [numbers[a.strip().lower()] for a in given["actions"] if a.strip().lower() in numbers]
            unknown = [a for a in given["actions"] if a.strip().lower() not in numbers]
        total, infos, executed, refused, over = 0.0, {}, [], [], False
        for action, name in actions[: self.left[env_id]]:
            _, reward, terminated, truncated, info = env.step(action)
            total += reward
            infos.update(info)
            executed.append(name)
            if not info.get("action_is_valid", True):
                refused.append(name)
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
        invalid = [f"{cut(a[:100])} was not executed: it is no action of this environment." for a in unknown]
        invalid += [f"{cut(name)} was executed, and the environment calls it invalid." for name in refused]
        invalid += [] if given["actions"] else ["no action was given."]
        if invalid:
            cache["history"][-1]["invalid"] = invalid
        self.counts[env_id].append((max(1, len(given["actions"])), len(invalid)))
        cache["history"].append(self.seen(env_id))
        if self.done[env_id]:
            cache["metrics"] = self.metrics(env_id)

    def metrics(self, env_id):
        tag, *turns = self.tags[env_id].name, *self.caches[env_id]["history"][:-1]
        keys = {key for turn in turns for key, value in turn["info"].items() if isinstance(value, bool | int | float)}
        means = {key: sum(turn["info"].get(key, 0) for turn in turns) / len(turns) for key in keys - {"success"}}
        reward, penalty = sum(turn["reward"] for turn in turns), self.caches[env_id]["penalty"]
        given, invalid = (sum(each) for each in zip(*self.counts[env_id], strict=True))
        figures = {
            "success": not self.truncated[env_id], "num_actions": sum(len(turn["actions"]) for turn in turns),
            "reward": reward, "penalty": penalty, "score": reward + penalty, "invalid_rate": invalid / given,
        }  # fmt: skip
        return {f"{tag}/{key}": value for key, value in {**means, **figures}.items()}

    def seen(self, env_id):
        shown = self.envs[env_id].render()
        if isinstance(shown, str):
            return {"state": shown, "actions_left": self.left[env_id]}
        return {"state": "<images>", "images": [Image.fromarray(shown)], "actions_left": self.left[env_id]}
