"""Plans by hand: `ballast plan`, from files or the live cluster."""
