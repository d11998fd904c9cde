"""What can be shown of a run: its outputs as tables, replays of a sample, checks, attacks, and pages for people."""
