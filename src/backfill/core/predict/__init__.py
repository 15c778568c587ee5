"""Predictions of run times: what the policy counts on instead of the walltime."""
