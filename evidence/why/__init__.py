"""Causes of information loss on a sample: by attribute, by category and range, and savings of other settings."""
