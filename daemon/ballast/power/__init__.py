"""Power budgets: how many replicas the available watts carry, when that changes, and which targets change."""
