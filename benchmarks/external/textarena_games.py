"""Games of TextArena, which draw from the generator of `random`; players other than the first move at random."""

import string

import gymnasium
import textarena
from gymnasium.spaces import Text


class Game(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(20_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, name, players, moves):
        self.name, self.players, self.moves = name, players, [f"[{move}]" for move in moves]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.game = textarena.make(self.name)  # one that is reset still shows what was said in the episode before
        self.game.reset(num_players=self.players, seed=seed)
        self.others_move(done=False)
        return self.text, {"available_actions": self.moves}

    def step(self, action):
        done, _ = self.game.step(action[:1000])  # a number of 5,000 digits raises
        done = self.others_move(done)
        reward = float(self.game.close()[0][0]) if done else 0.0
        info = {"success": reward == 1, "action_is_valid": action in self.moves}
        info |= {"action_is_effective": True, "available_actions": self.moves}
        return self.text, reward, done, False, info

    def others_move(self, done):
        while not done:
            player, text = self.game.get_observation()
            if player == 0:
                self.text = text
                return False
            done, _ = self.game.step(self.np_random.choice(self.moves))
        return True

    def render(self):
        return self.text


def guess_the_number(name="GuessTheNumber-v0"):
    return Game(name, 1, range(1, 21))


def game_2048(name="2048-v0-easy"):
    return Game(name, 1, ["Up", "Down", "Left", "Right"])


def tic_tac_toe(name="TicTacToe-v0"):
    return Game(name, 2, range(9))
