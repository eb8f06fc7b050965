"""The three cases of the paper with its priors, each claim of its text as a number over seeds."""
