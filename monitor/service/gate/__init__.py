"""The gate. It decides on a rollout from stored scores. It starts no run and stores nothing."""
