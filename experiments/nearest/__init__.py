"""Nearest beside CASTLE, with rare sensitive values, and attacked."""
