"""The job `eviction`: plans are made in a process of their own, and the first with steps is carried out."""
