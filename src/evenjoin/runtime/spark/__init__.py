"""The runtime on Spark Structured Streaming. The only folder that imports pyspark."""
