"""Everything the system itself may put before a model: one file per kind, one row in `registry`."""
