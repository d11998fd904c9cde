"""Experiments of l-diversity-enhanced SUHDSA (Sensors 2026, Section 4), with baselines."""
