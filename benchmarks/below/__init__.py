"""Nearest release by other rules than its own, to see whether any loses less; not for data."""
