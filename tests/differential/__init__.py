"""The differential test: random conditions, and Spark's own batch join of the same rows as the oracle.

    rows         two tables with a column of each type, filled with the values at the edges
    terms        expressions of one side, by the kind of value that they give
    conditions   a seed -> a condition of such terms, a time zone, ANSI or not, and which rows
    oracle       what Spark's batch join gives: pairs of ids, or that it fails, or that it refuses
    ours         what split, computed columns, our engine and Spark's filter give for the same
    embedded     what the embedded engine gives, or why it refuses
    verdict      both compared; a difference as a test that can be pasted

Claim: wherever Spark gives an answer, ours is the same or is refused with a reason. Where Spark fails on a row we may
fail or not, never the reverse.
    python -m differential --first 7 --count 500       looks for differences and prints them
"""
