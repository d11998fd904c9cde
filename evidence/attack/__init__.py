"""Attacks on the outputs of a run or of replays: re-identification risk with confidence intervals."""
