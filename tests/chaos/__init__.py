"""The campaign: joins that are killed, restarted, damaged and disturbed at random, and checked against DuckDB.

    python -m chaos --minutes 10 --seed 1        embedded runs, then chains of restarts on Spark
    python -m chaos --replay build/chaos/X.json  one saved case again
    python -m chaos damage --count 1000          one damage to one file of a checkpoint, a thousand times

A *case* (case.py) is a description of one run as plain JSON: the join, its rows, the batches, the settings of each
start, and the *events* that disturb it. The same case gives the same run, so a case that fails can be made smaller
(shrink.py), saved, and kept in `seeds/`, where the normal tests run it.

Invariant: the output that a sink holds at the end, by batch number, is what DuckDB makes of the whole input.
Only engine.py knows anything of the engine besides its public functions and its hooks for tests.
"""
