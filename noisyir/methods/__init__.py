"""Methods against wrong labels: from an experiment's pairs to a trained model's outputs.

A method adds steps to a plan and computes nothing: the arithmetic is in the stages that it names.
"""
