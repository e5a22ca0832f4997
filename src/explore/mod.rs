//! Schedule perturbation: strategies, shrinking, campaigns.
