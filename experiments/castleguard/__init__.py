"""Experiments of CASTLEGUARD (Sections V and VI): loss on taxi trips, and quality of Pima for classifiers."""
