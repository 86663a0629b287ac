"""
Formats of the conversations that other programs write: a module for each program.

Every JSON value may have any type, because files are damaged and programs change. Readers leave out what they do not
know, and raise nothing.
"""
