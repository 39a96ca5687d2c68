"""One file per stage: its declaration, and the few lines that join tables to maths."""
