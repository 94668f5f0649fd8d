"""Chapter 3: processes. What is copied, and what a pickled model silently is.

python docs/guide/03_processes.py
"""

import multiprocessing

import numpy as np
import torch

from abreast import SharedReplayBuffer
from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.processes.backend import ChildSpec
from abreast.processes.latest import Latest, latest_layout
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team

FORK = multiprocessing.get_context("fork")


class Model:
    """What one of the five agents has: a network, and how much it explores."""

    def __init__(self, inputs):
        self.network, self.epsilon = torch.nn.Linear(inputs, 4), 0.6
        with torch.no_grad():  # all weights are 0, so that it is easy to see whether something was learned
            self.network.weight.zero_()

    def learn(self, states):
        with torch.no_grad():
            self.network.weight += torch.from_numpy(states.astype(np.float32)).mean(dim=0)
        self.epsilon = 0.1

    def learned(self):
        return bool(self.network.weight.any()), self.epsilon


def learn_copy(model, states):
    """A learner as it is often written first: it is given the model when it starts."""
    model.learn(states)
    assert model.learned() == (True, 0.1)  # in here all is well


def learn_received(pipe, states):
    """The same, with the model through a pipe or a queue."""
    model = pipe.recv()
    model.learn(states)
    pipe.send("done")


class Learner:
    """Mended: the work of a child that is given places in shared memory, and no model of somebody else."""

    def __init__(self, context, memory, block):
        self.context, self.memory, self.place = context, memory, Latest(block, "agent0.")
        self.model = Model(memory.obs_shape[0])

    def obey(self, key, version):
        rows = int(self.memory.ring.written()[0])
        self.model.learn(self.memory.ring.fields["states"][0, :rows])
        weights = self.model.network.weight.detach().numpy()
        self.place.publish(version, weights, np.array([self.model.epsilon]))
        self.context.answer(key, rows)

    def idle(self):
        return None

    def close(self):
        pass


def main():
    torch.set_num_threads(1)
    env = TreasurehuntEnv.make({"experiment": {"max_turns": 30}, "model": {"algorithm": "random", "n_frames": 1}})
    played = env.generate_memories(1)[0].ring.fields["states"][0, :30].reshape(30, -1)
    print("rows of agent 0:", played.shape)

    # The pitfall: the child learns, and the model here knows nothing of it. There is no error.
    model = Model(played.shape[1])
    child = FORK.Process(target=learn_copy, args=(model, played))
    child.start()
    child.join()
    print("given to a process:", model.learned(), "exit code", child.exitcode)
    assert child.exitcode == 0 and model.learned() == (False, 0.6)

    # Its twin: torch puts tensors that go through a pipe into shared memory. Weights arrive, epsilon does not.
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=learn_received, args=(theirs, played))
    child.start()
    ours.send(model)
    assert ours.recv() == "done"
    child.join()
    print("sent through a pipe:", model.learned())
    assert model.learned() == (True, 0.6)

    # Mended: rows go through shared replay, what was learned comes back whole, with epsilon and a version.
    memory = SharedReplayBuffer(64, played.shape[1:], dtype=played.dtype)
    block = SharedBlock(latest_layout("agent0.", 4096))
    team = Team(
        ProcessBackend("fork"), lambda _: ChildSpec("learner", Learner, (memory, block)), 1, RestartPolicy(0, 60)
    )
    team.start()
    for state in played:  # written when the child is there already
        memory.add(state, 0, 0.0, False)
    team.submit(0, "train", 1)
    while not (answers := team.events()):
        team.wait(1.0)
    team.stop()
    version, data = Latest(block, "agent0.").read()
    weights, epsilon = data.view(np.float32)[: 4 * len(played[0])], data[-64:].view(np.float64)[0]
    print(f"published: version {version}, {answers[0].value} rows seen, {bool(weights.any())}, epsilon {epsilon}")
    assert (version, answers[0].value, bool(weights.any()), epsilon) == (1, 30, True, 0.1)


if __name__ == "__main__":
    main()
