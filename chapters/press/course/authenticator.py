"""Log in with a name and password of the course; nothing else is accepted."""

import asyncio
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from traitlets import Unicode

from press.course import passwords


class CourseAuthenticator(Authenticator):
    """Check passwords with the hashes in a file, read again for each login, as it may change."""

    file = Unicode(help="The file of hashed passwords.").tag(config=True)

    async def authenticate(self, handler: Any, data: dict[str, str]) -> Any:
        """Return the name if its password is right; hashing must not block the hub."""
        name = data["username"]
        entry = passwords.load_hashes(Path(self.file)).get(name)
        right = await asyncio.to_thread(passwords.verify_password, data["password"], entry)
        return name if right else None

    async def refresh_user(self, user: Any, handler: Any = None, **_: Any) -> Any:
        """Log out users who were removed from the file."""
        return user.name in passwords.load_hashes(Path(self.file))
