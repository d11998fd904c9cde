"""Speed, latency, memory and state of Crenel. ``python -m benchmarks --help`` lists the benchmarks."""
