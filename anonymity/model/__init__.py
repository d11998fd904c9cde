"""Attributes, hierarchies, policies and privacy settings, and the errors that name their fields."""
