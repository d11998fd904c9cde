"""Report on a run for people: one HTML file made from its outputs."""
