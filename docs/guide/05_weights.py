"""Chapter 5: publishing weights. Torn weights, a snapshot, a double buffer.

python docs/guide/05_weights.py
"""

import time

import numpy as np
import torch
from torch import nn

from abreast.processes.backend import ChildSpec
from abreast.processes.latest import Latest, latest_layout
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team


def make_network(block=None):
    """From a view of 125 numbers, as in treasure hunt, to values of four actions; with a block, its weights lie there."""
    network = nn.Sequential(nn.Linear(125, 8), nn.ReLU(), nn.Linear(8, 4))
    for name, parameter in network.named_parameters() if block is not None else ():
        parameter.data = torch.from_numpy(block[name])
    return network


def weights_of(version):
    """Weights that describe themselves: each of version 2 is 2."""
    return {name: torch.full_like(value, version) for name, value in make_network().state_dict().items()}


def versions_in(weights):
    """Which versions weights are of. (0 is the gap between two arrays.)"""
    return sorted({float(number) for number in np.unique(weights)} - {0.0})


class PausedArray:
    """An array whose publisher is held up before its bytes are copied, as the operating system may do at any time."""

    def __init__(self, array, pause):
        self.array, self.pause = array, pause

    def reshape(self, *shape):
        self.pause()
        return self.array.reshape(*shape)


class Learner:
    """The work of a child: it has learned a new version, and hands it to the actor in one of two ways."""

    def __init__(self, context, block):
        self.context, self.block = context, block
        self.network, self.place = make_network(block), Latest(block, "agent0.")

    def obey(self, key, order):
        way, version = order

        def pause(*_):
            self.context.answer(key, "half", last=False)
            while not self.block["go"][0] >= version:
                time.sleep(0.001)

        weights = weights_of(version)
        if way == "in place":
            self.network[2].register_load_state_dict_pre_hook(pause)  # called before the second layer is loaded
            self.network.load_state_dict(weights)
        else:
            first, *others = (value.numpy() for value in weights.values())
            self.place.publish(version, first, PausedArray(others[0], pause), *others[1:])
        self.context.answer(key, "whole")

    def idle(self):
        return None

    def close(self):
        pass


def wait_for(team, answer):
    while answer not in [event.value for event in team.events()]:
        team.wait(1.0)


def main():
    torch.set_num_threads(1)
    shapes = {name: (tuple(value.shape), np.float32) for name, value in weights_of(1).items()}
    block = SharedBlock({**shapes, **latest_layout("agent0.", 8192, readers=2), "go": ((1,), np.int64)})
    network, view = make_network(block), torch.ones(125)
    network.load_state_dict(weights_of(1))
    team = Team(ProcessBackend("fork"), lambda _: ChildSpec("learner", Learner, (block,)), 1, RestartPolicy(0, 60))
    team.start()

    # The pitfall: the actor chooses while load_state_dict is under way. Its network is neither version.
    old = network(view)[0].item()
    team.submit(0, "load", ("in place", 2))
    wait_for(team, "half")
    torn, versions = network(view)[0].item(), versions_in(nn.utils.parameters_to_vector(network.parameters()).detach())
    block["go"][0] = 2
    wait_for(team, "whole")
    new = network(view)[0].item()
    print(f"value of an action: version 1 {old:.0f}, version 2 {new:.0f}, while loading {torn:.0f}, of", versions)
    assert versions == [1.0, 2.0] and old < torn < new

    # Mended: the new version goes into a slot that nobody reads, and becomes the newest in one step.
    Latest(block, "agent0.").publish(3, *(value.numpy() for value in weights_of(3).values()))
    snapshot, pinned = Latest(block, "agent0.", "snapshot", 0), Latest(block, "agent0.", "double_buffer", 1)
    team.submit(0, "publish", ("publish", 4))
    wait_for(team, "half")
    copied, held = snapshot.read(), pinned.read()
    seen = [(each.version, versions_in(each.data.view(np.float32))) for each in (copied, held)]
    block["go"][0] = 4
    wait_for(team, "whole")
    seen += [(snapshot.read().version, versions_in(held.data.view(np.float32)))]
    print("while publishing:", seen[:2], "afterwards:", seen[2])
    assert seen == [(3, [3.0]), (3, [3.0]), (4, [3.0])]  # the newest is 4, and what the actor holds is still 3
    team.stop()


if __name__ == "__main__":
    main()
