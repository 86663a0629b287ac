"""The HTTP API and the page where people look at what is remembered."""
