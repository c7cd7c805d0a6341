"""What drives a join: the loop over batches (driver.py), the runtime in this process (local.py) and the one on Spark
(spark/). A runtime runs one batch; the driver decides in which order things happen, and commits."""
