"""One job each: read the snapshot, call the core, hand the result to the writer, return one sentence."""
