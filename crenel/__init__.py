"""Crenel anonymizes a stream of personal data while it flows."""
