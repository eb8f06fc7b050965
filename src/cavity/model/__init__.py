"""What is inferred: data, groups, priors, likelihoods, activations, the frozen specification."""
