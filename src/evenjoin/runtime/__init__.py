"""What drives a join: the loop (driver), the in-process runtime (local) and the one on Spark."""
