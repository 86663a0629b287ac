"""The PostgreSQL backend: connections, schema, the keyword leg and vectors."""
