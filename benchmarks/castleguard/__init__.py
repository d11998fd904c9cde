"""The experiments of CASTLEGUARD (Sections V and VI): ``python -m benchmarks.castleguard``."""
