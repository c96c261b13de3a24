"""One daemon against callers, tenants and sources that mean harm: `make test-hostile`."""
