"""What makes a batch final, and what a restart begins from: the log of commits, whose checkpoint it is (identity.py),
and who holds it (owner.py). Nothing here decides what a commit says (runtime/advance.py)."""
