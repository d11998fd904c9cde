"""One folder for each algorithm, and those that come with Crenel (``builtin``)."""
