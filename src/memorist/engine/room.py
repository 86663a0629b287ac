"""A room: the operations of a memory on one subject."""

from memorist.contract import Transport
from memorist.engine.resources import Resources


class Room:
    """
    Operations of a memory on one subject.

    They are run here, with the resources of a memory that is open in this process, or handed to a transport.
    """

    _name = ""  # the name of the attribute of `Memorist` that holds it

    def __init__(self, backend: Resources | Transport) -> None:
        self._remote = backend if isinstance(backend, Transport) else None
        if not isinstance(backend, Transport):
            self._resources = backend
            self._store = backend.store
