"""Workloads, peers, runs and the report: what is measured, always as a ratio in one run.

Reading order: ``workloads`` (the streams), ``jobs`` (one run of one system in its own process), ``peers`` and ``ours``
(the systems), ``run`` (the command), ``report`` (the table and the JSON file). Strategies against each other:
``join_workload``, ``skewed``, ``tpch``, ``bands``, ``trijoin``, ``three_keys`` and ``catalog`` (the papers' streams),
``compare``, ``compare_report``, ``compare_plots`` and ``compare_page``. Three sides: ``three_way`` (against Spark) and
``theta3`` (strategies for joins without a key). ``planners`` times planning alone.

Nothing in the engine imports this folder.
"""
