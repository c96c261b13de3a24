"""The experiment `power`: budgets over recorded shapes, clouds, a year of sun and a year of carbon intensities."""
