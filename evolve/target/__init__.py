"""The hardware that is aimed at: profiles, what they allow in a launch, and where data files lie."""
