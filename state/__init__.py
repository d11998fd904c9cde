"""Stored state of a shard: plain columnar data and its versioned byte formats."""
