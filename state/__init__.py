"""What a shard remembers: plain columnar data and its versioned byte formats."""
