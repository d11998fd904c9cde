"""The algorithms that come with Crenel.

Importing this module registers them (``crenel.anonymity.algorithm.known_algorithms``).
"""

from crenel.anonymity.castle.algorithm import CASTLE
from crenel.anonymity.mondrian.algorithm import MONDRIAN
from crenel.anonymity.nearest.algorithm import NEAREST
from crenel.anonymity.ola.algorithm import OLA
from crenel.anonymity.window.algorithm import WINDOW

__all__ = ["CASTLE", "MONDRIAN", "NEAREST", "OLA", "WINDOW"]
