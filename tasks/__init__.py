"""Stages as Prefect tasks: names, retries, logs and progress, and nothing else."""
