"""What left, for people: one HTML file from the outputs of a run."""
