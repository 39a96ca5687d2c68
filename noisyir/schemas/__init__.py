"""Every artifact: its columns, key and version.  Stages speak to each other in these tables and in nothing else.

Ids are strings.  `doc_row` is the only positional id: dense, given once by ingest, equal to the FAISS id.
Names are those of ir-measures.
"""
