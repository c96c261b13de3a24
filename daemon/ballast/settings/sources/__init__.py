"""Where settings come from: the environment, variables of load-watcher, the configuration file."""
