"""The search: the loop, budget, stop rules, champion protocol."""
