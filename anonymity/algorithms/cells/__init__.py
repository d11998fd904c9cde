"""Differentially private k-anonymity: windows on a fixed grid, sampled persons, and cells declared ahead of the data.

Source: Li, Qardaji and Su, "On sampling, anonymization, and differential privacy" (2012), Theorem 5.
"""
