"""Nearest beside CASTLE, and by alternative rules."""
