"""Prompts and answers of language models: from a cache to chat messages, from an answer to actions, from both to tokens.

cache ──▶ context: messages ──▶ a model ──▶ parsing: actions ──▶ EnvStateManager.step
                  └──▶ tokens: ids, loss mask, rewards, for a trainer
"""
