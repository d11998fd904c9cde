"""Anonymization algorithms, one folder each; ``crenel.anonymity.builtin`` registers them."""
