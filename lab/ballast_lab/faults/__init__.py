"""A judge of faults: daemons on a real control plane are hurt at every kind of write, and the audit log is judged."""
