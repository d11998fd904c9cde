"""Settings around a configured one: which there are, what each costs, and how a configuration writes it."""
