"""Planning: alternatives to a configured setting, their cost, and their configuration."""
