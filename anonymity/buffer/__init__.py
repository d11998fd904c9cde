"""Buffered tuples of a shard, with their deadlines, releases and reuse, shared by all algorithms."""
