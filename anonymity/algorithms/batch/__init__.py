"""Algorithms that choose groups among all that waits, in Python: an algorithm is one method, the rest is here."""
