"""Experiments on ``cells``: the price of differential privacy beside algorithms without it."""
