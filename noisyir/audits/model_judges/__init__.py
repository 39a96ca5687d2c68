"""Judges that are models: a sequence classifier, or an endpoint that receives the texts of pairs.

Nothing leaves the machine unless the user names an address; answers are never mixed with people's judgements.
"""
