"""`ballast rehearse`: what Ballast would have done over recorded days, beside what happened."""
