"""Mondrian: what a window holds is cut in two again and again (LeFevre, DeWitt and Ramakrishnan, ICDE 2006)."""
