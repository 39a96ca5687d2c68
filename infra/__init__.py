"""Servers, workers and what they need, for one machine, for compose and for Kubernetes: see infra/README.md."""
