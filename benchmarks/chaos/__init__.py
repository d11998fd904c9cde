"""Jobs on a cluster of their own whose processes are killed at random, and what left in spite of it."""
