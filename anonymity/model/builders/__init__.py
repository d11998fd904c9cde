"""Builders of hierarchies from a few parameters, one module per kind of values."""
