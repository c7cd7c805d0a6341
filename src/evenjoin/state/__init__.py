"""What an instance keeps from batch to batch: sorted, immutable Arrow files, and the manifest that names them.

Nothing here decides where a tuple is stored (placement/) or when a change becomes final (commit/)."""
