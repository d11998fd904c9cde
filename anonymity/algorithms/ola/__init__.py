"""OLA: one level of generalization for each attribute, the same for all of a window."""
