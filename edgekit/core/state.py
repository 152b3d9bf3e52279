"""Where edgekit keeps what may be thrown away: logs, compiled forms of models, remembered timings.

Nothing that a user made is kept here; deleting the folder costs time, never data.
"""

import os
from pathlib import Path


def state_folder() -> Path:
    """`$XDG_STATE_HOME/edgekit`, by default `~/.local/state/edgekit`. Not created here.

    A relative `XDG_STATE_HOME` is ignored, as the XDG Base Directory specification asks.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".local" / "state"
    return base / "edgekit"
