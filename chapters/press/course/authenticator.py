"""Log in with a name and a password of the course, and nothing else."""

import asyncio
from pathlib import Path
from typing import Any

from jupyterhub.auth import Authenticator
from traitlets import Unicode

from press.course import passwords


class CourseAuthenticator(Authenticator):
    """Compare with the hashes in a file, read anew each time: it may change while the hub runs."""

    file = Unicode(help="The file of hashed passwords.").tag(config=True)

    async def authenticate(self, handler: Any, data: dict[str, str]) -> Any:
        """Return the name if its password is right; hashing must not hold up the hub."""
        name = data["username"]
        entry = passwords.load_hashes(Path(self.file)).get(name)
        right = await asyncio.to_thread(passwords.verify_password, data["password"], entry)
        return name if right else None

    async def refresh_user(self, user: Any, handler: Any = None, **_: Any) -> Any:
        """Log out whoever was taken out of the file."""
        return user.name in passwords.load_hashes(Path(self.file))
