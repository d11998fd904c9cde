"""The core: policies, hierarchies, CASTLE. It knows nothing of Flink."""
