"""
The formats of conversations that other programs write: `FORMATS`. A new one is a module of this package, listed here.

Every JSON value may have any type, because files are damaged and programs change. Readers leave out what they do not
know, and raise nothing.
"""

from collections.abc import Mapping

from memorist.importers.formats.claude_code import CLAUDE_CODE
from memorist.importers.formats.codex import CODEX
from memorist.importers.formats.conversation import TranscriptFormat
from memorist.importers.formats.cursor import CURSOR
from memorist.importers.formats.gemini import GEMINI
from memorist.importers.formats.messages import OPENAI, PLAIN_LINES
from memorist.importers.formats.opencode import OPENCODE
from memorist.importers.formats.vscode import VSCODE
from memorist.importers.formats.web_exports import CHATGPT, CLAUDE
from memorist.importers.formats.zed import ZED

# In the order in which a file is compared with them
FORMATS: Mapping[str, TranscriptFormat] = {
    format.name: format
    for format in (
        CLAUDE_CODE,
        CODEX,
        GEMINI,
        CURSOR,
        OPENCODE,
        ZED,
        VSCODE,
        CHATGPT,
        CLAUDE,
        OPENAI,
        PLAIN_LINES,
    )
}
