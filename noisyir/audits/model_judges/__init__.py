"""Asking judges that are not people about pairs: a sequence classifier, or an endpoint that is sent their texts.

Nothing leaves the machine unless the user names an address; what is answered is never mixed with what people judged.
"""
