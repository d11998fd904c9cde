"""Entry points and wiring: configuration, the pipeline, the command line."""
