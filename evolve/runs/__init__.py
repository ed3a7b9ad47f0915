"""Runs: the run folder and folds over its events (state, resume, replay, show)."""
