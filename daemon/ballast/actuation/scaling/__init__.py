"""Changes replicas and caps of the targets of power policies."""
