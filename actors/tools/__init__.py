"""The tools a model can call: files, search, shell, children; the process guard; the runner of a reply's calls."""
