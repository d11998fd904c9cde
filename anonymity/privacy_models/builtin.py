"""Built-in privacy models beside k-anonymity and l-diversity.

Importing this module registers them (``crenel.anonymity.model.privacy_model``), in the order in which a set of tuples
is checked: the first that is violated is the reason of a suppression.
"""

# ruff: noqa: I001
from crenel.anonymity.privacy_models.alpha_k_anonymity import ALPHA
from crenel.anonymity.privacy_models.t_closeness import T
from crenel.anonymity.privacy_models.entropy_diversity import ENTROPY_L
from crenel.anonymity.privacy_models.beta_likeness import BETA
from crenel.anonymity.privacy_models.recursive_diversity import RECURSIVE

__all__ = ["ALPHA", "BETA", "ENTROPY_L", "RECURSIVE", "T"]
