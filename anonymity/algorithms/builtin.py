"""The algorithms that come with Crenel.

Importing this module registers them (``crenel.anonymity.algorithm.known_algorithms``).
"""

from crenel.anonymity.algorithms.castle.algorithm import CASTLE
from crenel.anonymity.algorithms.mondrian.algorithm import MONDRIAN
from crenel.anonymity.algorithms.nearest.algorithm import NEAREST
from crenel.anonymity.algorithms.ola.algorithm import OLA
from crenel.anonymity.algorithms.suhdsa.algorithm import SUHDSA

__all__ = ["CASTLE", "MONDRIAN", "NEAREST", "OLA", "SUHDSA"]
