"""Base of algorithms that choose groups among all buffered tuples in Python, by one method."""
