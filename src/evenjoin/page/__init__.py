"""The page: what the commits of a checkpoint show of its join, while it runs and afterwards.

    commits ──► follow ──► moments ──► model ──► verdict, cards, figures ──► board ┬──► server   evenjoin ui
             (reads)     (a batch)   (columns)  (sentences, HTML, plots)            └──► report   evenjoin report
                                        └──► metrics                                             evenjoin metrics

Everything here reads commits and tables and nothing else. So it works beside a running query, after it, from another
machine on a shared folder, and under Spark Connect; and it can neither slow a query down nor disturb it.

Keys, aliases and conditions are data: they reach a page through `shown.html` only.
Not here: what the engine tells of itself (events.py, load/report.py), and the verbs of the command line (cli/).
"""
