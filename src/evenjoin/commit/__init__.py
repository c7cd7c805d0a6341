"""The log of commits: what makes a batch final, and what a restart begins from."""
