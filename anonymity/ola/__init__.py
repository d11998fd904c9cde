"""OLA: one level of generalisation for each attribute, the same for all of a window."""
