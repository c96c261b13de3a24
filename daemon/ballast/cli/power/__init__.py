"""`ballast power`: budgets replayed and allocated from files, without a cluster."""
