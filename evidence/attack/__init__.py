"""What an observer could do with what left: attacks on the outputs of a run, or of replays, each with its bounds."""
