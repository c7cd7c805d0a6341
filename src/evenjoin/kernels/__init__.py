"""Functions on numpy and Arrow arrays: hashing keys, sorted runs, bands. They have no state and no files, and no Python
loop over rows. They know nothing of tables, sides or joins."""
