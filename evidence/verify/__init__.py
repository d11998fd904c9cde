"""Verification of a run from its outputs alone, by code that is independent of the code that produced them."""
