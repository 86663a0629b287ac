"""The operations of the API: those of `Memorist` and of its rooms, and the calls about the server itself."""

from memorist.contract import Operation, list_operations
from memorist.engine.memory import ROOMS
from memorist.web.server_calls import ServerCalls

OPERATIONS: tuple[Operation, ...] = list_operations(*ROOMS, ServerCalls)
