"""Workloads, peers, runs and the report: what is measured, always as a ratio in one run.

Reading order: ``workloads`` (the streams), ``jobs`` (one run of one system in its own process), ``peers`` and ``ours``
(the systems), ``run`` (the command), ``report`` (the table and the JSON file). Strategies against each other:
``join_workload``, ``skewed``, ``tpch``, ``bands`` and ``catalog`` (the papers' streams), ``compare``,
``compare_report`` and ``compare_plots``; ``planners`` times planning alone.

Nothing in the engine imports this folder.
"""
