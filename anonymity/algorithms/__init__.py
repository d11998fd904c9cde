"""Anonymization algorithms, one folder each; ``builtin`` registers those that come with Crenel."""
