"""Stages that score, compare and report; the only readers of the truth about added noise."""
