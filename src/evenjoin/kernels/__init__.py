"""Functions on numpy and Arrow arrays: no state, no files, no Python loop over rows."""
