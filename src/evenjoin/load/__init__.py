"""Receipts of the tasks, folded into a load report: what each instance holds and does."""
