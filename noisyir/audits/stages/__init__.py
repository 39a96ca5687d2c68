"""Stages that write an audit's tables and page; nothing is judged here."""
