"""What one join instance does with its share of one batch: probe what is stored, hand over the results, and store what
arrived. batch.py is the page to begin with. Where a tuple is placed was decided before (placement/)."""
