"""Parts of a policy that several of its keys share."""
