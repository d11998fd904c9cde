"""Experiments of (k, epsilon)-anonymity (Sections III, V, VI and VII), and the same noise on a stream."""
