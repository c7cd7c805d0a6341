"""Conditions on Spark: Spark evaluates, the engine compares; we propose, Spark proves.

    analyst    questions to Spark's analyser: what is this text's type, whose columns does it read, do two texts mean
               the same
    safety     which expressions may fail for a row, so that they must not be computed for rows that Spark would spare
    values     operands of comparisons, as expressions of the engine over plain and computed columns
    split      the condition, taken apart: computed columns, the condition for the engine, the filter for Spark
    hints      bounds that follow from comparisons whose constants have no fixed length
    outputs    `select`, and what Spark does with the results of the engine
    objects    Column objects as SQL text

`split` is the entry. It needs schemas only, and runs on batch frames as well as on streams.
"""

from evenjoin.runtime.spark.conditions.split import Split, split

__all__ = ["Split", "split"]
