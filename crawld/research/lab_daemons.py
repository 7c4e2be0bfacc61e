"""Real daemons for the lab: built from settings that fit a site whose days pass in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawld.choose.policies import Policy
from crawld.main.settings import Settings

if TYPE_CHECKING:
    from crawld.research.contest import Entrant

POLL_SHARE = 0.05
LEARN_SECONDS, TICK_SECONDS, POLL_SECONDS = 0.5, 5.0, 1.0


@dataclass(frozen=True, slots=True)
class LabDaemons:
    """Where the daemons of one run keep their databases, what they crawl, and how fast each may."""

    folder: Path
    bandwidth: float
    audit_share: float = 0.0
    listen: str | None = None
    """Where a daemon serves its dashboard; only one at a time can."""
    read_share: float = 0.5
    mode: str = "main"
    """What of pages is compared; `raw` spends no request on telling noise from edits."""

    @property
    def url_list(self) -> Path:
        """The list that all of them crawl."""
        return self.folder / "urls.txt"

    def database(self, name: str) -> Path:
        """The database of the daemon of that name."""
        return self.folder / f"{name}.db"

    def enter(self, name: str, policy: Policy) -> "Entrant":
        """A daemon that follows the policy; `name` is the product token by which the site knows it."""
        from crawld.main.assembly import Tempo, build
        from crawld.research.contest import Entrant

        tempo = Tempo(learn=LEARN_SECONDS, tick=TICK_SECONDS, poll=POLL_SECONDS)
        daemon = build(Settings.model_validate(self._settings(name, policy)), tempo=tempo)
        daemon.catch_signals = False

        def predicted() -> float:
            return daemon.scheduler.predicted_freshness(daemon.clock.now()) or 0.0

        return Entrant(name, daemon, predicted)

    def socket(self, name: str) -> Path:
        """The control socket of the daemon of that name."""
        return self.folder / f"{name}.db.sock"

    def _settings(self, name: str, policy: Policy) -> Mapping[str, Any]:
        return {
            "bandwidth": self.bandwidth,
            "urls": str(self.url_list),
            "database": f"sqlite:///{self.database(name)}",
            "user_agent": f"{name}/1.0 (+mailto:lab@localhost)",
            "policy": policy.name,
            "allow_private": ["127.0.0.0/8"],
            "politeness": {"delay": 0, "per_host": 100},
            "min_interval": 0.2,
            "signals": {"share": POLL_SHARE} if policy.hears else {"sitemaps": "off", "feeds": "off"},
            "audit": {"share": self.audit_share if policy.hears else 0},
            "read_through": {"share": self.read_share},
            "digest": [{"pattern": "*", "mode": self.mode}],
            "log": {"level": "warning"},
            "api": {"listen": self.listen},
        }
