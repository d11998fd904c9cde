"""Hierarchies that are built from a few parameters, one kind of values a module."""
