"""An embedded cluster that speaks the real wire formats on real sockets."""
