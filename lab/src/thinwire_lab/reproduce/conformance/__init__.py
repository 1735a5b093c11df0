"""Package marker of the conformance reproduction."""
