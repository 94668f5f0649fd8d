"""Games: each folder here is one, and nothing outside a game's folder knows of it."""

from abreast.games.registry import AnyGame, Game, check_batched, find_game, find_game_of_run, list_games

__all__ = ["AnyGame", "Game", "check_batched", "find_game", "find_game_of_run", "list_games"]
