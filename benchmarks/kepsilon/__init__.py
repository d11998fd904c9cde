"""The experiments of (k, epsilon)-anonymity (Sections III, V, VI and VII): ``python -m benchmarks.kepsilon``."""
