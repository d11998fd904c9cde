"""Experiments of CASTLE (Section 5), beside nearest, SUHDSA windows, Mondrian and dynamicGroup."""
