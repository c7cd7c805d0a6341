"""One join instance, one batch: store what arrives, probe what is stored, hand over the pairs."""
