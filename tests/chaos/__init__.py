"""Runs that are killed, stopped, starved and damaged on purpose. Each has a short version in the suite; `driver.py` runs the
long ones, from a recorded seed (`make chaos MINUTES=30 SEED=1`).
"""
