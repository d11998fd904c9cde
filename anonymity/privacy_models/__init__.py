"""What must hold of every release, and all that counts persons for it.

k is a promise of its own, because algorithms form groups by it. All others (``l`` and what a job adds) look at how many
persons of a set have each value of a sensitive column: a ``Tally``. A promise is a record (``record``); compiled code
asks ``checks`` whether a set keeps all that was promised, by how much it falls short, and for the last word before a
release leaves.
"""
