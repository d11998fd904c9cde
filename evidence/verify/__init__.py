"""What can be checked of a run from its outputs alone, by code that shares nothing with what made them."""
