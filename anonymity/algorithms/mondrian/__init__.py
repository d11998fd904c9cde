"""Mondrian: recursive cuts of a window's tuples in two (LeFevre, DeWitt and Ramakrishnan, ICDE 2006)."""
