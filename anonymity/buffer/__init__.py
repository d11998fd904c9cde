"""Buffered tuples of a shard, their deadlines, releases and reuse: what all algorithms share."""
