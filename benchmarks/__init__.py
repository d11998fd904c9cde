"""What Crenel costs and what it loses, as tables. ``python -m benchmarks`` runs all of them."""
