"""
Importers: files that other programs, or Memorist itself, wrote.

Decisions and their reasons:

- A record of an export is whole in itself. It is known already or loaded whole, so an import that was cut short is
  simply run again.
- `importers/transcripts` and `importers/formats` are apart. One streams files and finds out their format; the other
  knows how each program writes a conversation down, a module each, and grows with every new one.
"""
