"""What each instance holds and does: receipts of the tasks, folded into a load report; and the papers' load models,
which say how uneven that is. Pure. Nothing here decides on another table (strategies/, runtime/rebalance.py)."""
