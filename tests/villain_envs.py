"""Environments that misbehave, each in its own way; and a plain one. They need no torch, so workers load them quickly."""

import os
import signal
import threading
import time

import gymnasium
import numpy as np

from abreast.rollouts import EnvConfig, EnvStateManager, register


class CountingConfig(EnvConfig):
    """Settings of the counting environments."""

    harm_at: int = 2
    """The step at which a villain strikes."""
    harm_seed: int = 0
    """The seed with which it strikes."""
    seconds: float = 0.0
    """For how long a step waits."""
    compute_seconds: float = 0.0
    """For how long a step computes."""
    reset_seconds: float = 0.0
    """What a reset takes."""
    inner_timeout: float | None = None
    """The timeout of a manager it uses."""
    padding: int = 0
    """How many characters more than needed it shows."""
    flag: str = ""
    """A file that makes the villain good when it is there; it makes one when it strikes."""


class Counting(gymnasium.Env):
    """Counts its steps and adds up numbers drawn from its own stream; done after ten."""

    def __init__(self, config):
        self.config = config
        self.render_mode = "text"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(self.config.reset_seconds)
        self.seed, self.steps, self.total = seed, 0, 0
        return self.render(), {}

    def step(self, action):
        if self.config.seconds:
            time.sleep(self.config.seconds)
        end = time.thread_time() + self.config.compute_seconds if self.config.compute_seconds else 0.0
        while end and time.thread_time() < end:
            pass
        self.steps += 1
        if self.steps == self.config.harm_at and self.seed == self.config.harm_seed:
            self.strike()
        self.total += int(self.np_random.integers(100))
        done = self.steps == 10
        return self.render(), float(self.total % 7), done, False, {"success": done, "action_is_valid": True}

    def strike(self):
        """Do nothing bad."""

    def render(self):
        return f"{self.steps} steps, {self.total} in all" + "." * self.config.padding


class KillsItself(Counting):
    def strike(self):
        os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(Counting):
    """Dies the first time only, as of something that has nothing to do with it."""

    def strike(self):
        if not os.path.exists(self.config.flag):  # noqa: PTH110
            with open(self.config.flag, "w"):  # noqa: PTH123
                os.kill(os.getpid(), signal.SIGKILL)


class HangsInStep(Counting):
    def strike(self):
        time.sleep(3600)


class LoopsInStep(Counting):
    def strike(self):
        while True:
            pass


class ClingsToItsTurn(Counting):
    """Does not give up at the first asking."""

    def strike(self):
        try:
            time.sleep(3600)
        except BaseException:
            time.sleep(3600)


class SwallowsEverything(Counting):
    """Takes the interrupt for an accident, and goes on."""

    def strike(self):
        try:
            time.sleep(3600)
        except BaseException:
            self.total = -1


class UsesAManager(Counting):
    """Environments may use a manager themselves."""

    def strike(self):
        inner = {"Inner": {"env_type": "HangsInStep", "env_config": {"harm_at": 1}}}
        train = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": ["Inner"], "n_groups": [1]}}
        manager = {"use_multiprocessing": False, "step_timeout": self.config.inner_timeout, "train": train}
        with EnvStateManager({"custom_envs": inner, "es_manager": manager}) as mine:
            mine.reset(seed=0)
            mine.step([{"env_id": 0, "actions": ["a"]}])


class IsDebugged(Counting):
    """Somebody looks at it with a debugger for a while."""

    def strike(self):
        exec("time.sleep(1.0)", {"__name__": "bdb", "time": time})


class TakesLongToBuild(Counting):
    def __init__(self, config):
        super().__init__(config)
        time.sleep(config.seconds)

    def step(self, action):
        self.config = self.config.model_copy(update={"seconds": 0.0})
        return super().step(action)


class ShowsPictures(Counting):
    """And then raises."""

    def strike(self):
        raise ZeroDivisionError("a villain divides by zero")

    def render(self):
        return np.full((2, 2, 3), self.steps, np.uint8)


class TellsOfALock(Counting):
    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        return state, reward, terminated, truncated, {**info, "lock": threading.Lock(), "big": 10**400}


class RaisesInStep(Counting):
    def strike(self):
        raise ZeroDivisionError("a villain divides by zero")


class RaisesOnce(Counting):
    def strike(self):
        if not os.path.exists(self.config.flag):  # noqa: PTH110
            self.total = -1000  # half done
            with open(self.config.flag, "w"):  # noqa: PTH123
                raise ConnectionError("the network was away")


class RaisesInReset(Counting):
    def reset(self, *, seed=None, options=None):
        if seed == self.config.harm_seed:
            raise ValueError("no room for this seed")
        return super().reset(seed=seed)


class HangsInReset(Counting):
    def reset(self, *, seed=None, options=None):
        if seed == self.config.harm_seed:
            time.sleep(3600)
        return super().reset(seed=seed)


class ReturnsUnpicklable(Counting):
    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        if self.steps == self.config.harm_at:
            info["function"] = lambda: None
        return state, reward, terminated, truncated, info


class AllocatesTooMuch(Counting):
    def strike(self):
        self.block = np.ones(2**40, dtype=np.uint8)


class ForgetsItsSeed(Counting):
    """Draws from a stream of its own that no seed reaches."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.total = int.from_bytes(os.urandom(4))
        return self.render(), {}


class Wavers(Counting):
    """Every step draws from a source that no seed reaches: it can be played once, but not replayed."""

    def step(self, action):
        time.sleep(0.0002)
        self.total += int.from_bytes(os.urandom(3), "big")
        return super().step(action)


class SharesItsInfo(Counting):
    """Gives out one list again and again, and goes on changing it."""

    def reset(self, *, seed=None, options=None):
        self.log = []
        return super().reset(seed=seed)

    def step(self, action):
        self.log.append(action)
        state, reward, terminated, truncated, info = super().step(action)
        return state, reward, terminated, truncated, {**info, "log": self.log}


class TellsMuch(Counting):
    """Its info holds arrays, numbers of numpy's and sets, as many do."""

    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        info |= {"array": np.arange(3) * 1.0, "number": np.float64(2), "nan": float("nan"), "set": set("abcdefgh")}
        return state, reward, terminated, truncated, {**info, "list": [np.float32(1), {"deep": np.ones(2)}]}


class EarnsNothingFinite(Counting):
    """Its reward is no number, from the fatal step on."""

    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        is_struck = self.steps >= self.config.harm_at and self.seed == self.config.harm_seed
        return state, float(self.config.flag or "nan") if is_struck else reward, terminated, truncated, info


class ClosesDescriptors(Counting):
    """Closes all files of its process, the socket of its worker among them."""

    def strike(self):
        os.closerange(3, 4096)


class KillsWhenPickled(Counting):
    """What it returns ends the process that pickles it; a deep copy does not."""

    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        if self.steps >= self.config.harm_at and self.seed == self.config.harm_seed:
            info["bomb"] = Bomb()
        return state, reward, terminated, truncated, info


class Bomb:
    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)


class RunsCodeWhenRead(Counting):
    """What it returns would call something in the process that reads it."""

    def step(self, action):
        state, reward, terminated, truncated, info = super().step(action)
        return state, reward, terminated, truncated, {**info, "trap": Trap(self.config.flag)}


class Trap:
    def __init__(self, flag):
        self.flag = flag

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return open, (self.flag, "w")


class RaisesInClose(Counting):
    def close(self):
        raise OSError("it is stuck")


class TellsWhenClosed(Counting):
    def close(self):
        with open(f"{self.config.flag}{self.seed}", "w"):  # noqa: PTH123
            pass


# Below, so that the lines of those above stay what they are: golden.json has the reasons why episodes ended.


class EndsTheProgram(Counting):
    """In a way that its flag names."""

    def strike(self):
        if self.config.flag == "os._exit":
            os._exit(3)
        if self.config.flag == "child":  # which may
            child = os.fork()
            if not child:
                os._exit(7)
            self.total += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        elif self.config.flag == "cancel":
            import asyncio

            raise asyncio.CancelledError("given up")
        else:
            raise SystemExit(3)  # as sys.exit does


class LeaksMemory(Counting):
    """A tenth of a gigabyte of its process an episode."""

    blocks = []

    def reset(self, *, seed=None, options=None):
        self.blocks.append(bytearray(10**8))
        return super().reset(seed=seed)


class SaysNoSuccess(Counting):
    """Says of its success what its flag says: nothing, or the word alone when it has succeeded."""

    def step(self, action):
        state, reward, terminated, truncated, _ = super().step(action)
        told = {"success": True} if self.config.flag and terminated and self.seed % 2 else {}
        return state, reward, terminated, truncated, told


class SaysEscapes(Counting):
    """Its state and its error tell a terminal to be cleared."""

    def strike(self):
        raise ValueError("\x1b[2J\x1b]0;gone\x07 \x1b[8mhidden")

    def render(self):
        return f"\x1b[2J{super().render()}"


ALL = [
    Counting, KillsItself, DiesOnce, HangsInStep, LoopsInStep, ClingsToItsTurn, SwallowsEverything, UsesAManager,
    RaisesInStep, RaisesOnce, EndsTheProgram, LeaksMemory, SaysNoSuccess, SaysEscapes,
    RaisesInReset, HangsInReset, IsDebugged, TakesLongToBuild, ShowsPictures, TellsOfALock,
    ReturnsUnpicklable, AllocatesTooMuch, ForgetsItsSeed, Wavers, SharesItsInfo, TellsMuch,
    RaisesInClose, TellsWhenClosed, EarnsNothingFinite, ClosesDescriptors, KillsWhenPickled, RunsCodeWhenRead,
]  # fmt: skip
for kind in ALL:
    register(kind.__name__, config=CountingConfig)(kind)
