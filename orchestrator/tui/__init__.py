"""The terminal: one Pod's transcript on a screen, live, with a box to write in. Textual is imported here only."""
