"""Experiments of the papers, and comparisons of algorithms. ``python -m experiments --help`` lists them."""
