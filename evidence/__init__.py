"""Evidence about a run: its outputs as tables, replays of a sample, verification, attacks, and reports."""
