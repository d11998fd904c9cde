"""Regions of the space of quasi-identifiers, by which a stream is divided into shards."""
