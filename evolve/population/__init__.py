"""The population: archive, islands, selection, lineage. Pure functions over frozen data."""
