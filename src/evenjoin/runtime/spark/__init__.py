"""The runtime on Spark Structured Streaming. Of the engine only this folder imports pyspark.

join.py is the front door, writer.py starts the query, and batch.py runs one batch."""
