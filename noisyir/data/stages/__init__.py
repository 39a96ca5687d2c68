"""Stages that bring data in: tables of documents, queries and pairs; no noise is added here."""
