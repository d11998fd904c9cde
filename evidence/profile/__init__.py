"""Profiles of data: how far its columns single rows out, and the roles that follow."""
