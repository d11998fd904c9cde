"""Jobs on a cluster of their own whose processes are killed at random, and their outputs."""
