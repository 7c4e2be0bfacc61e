"""`crawld fleet ray`: the workers of a fleet on a Ray cluster."""

import os
import signal
import threading
from pathlib import Path
from types import FrameType

import click

from crawld.cli.remote import CONFIG
from crawld.main.settings import load

PASSED_ON = ("CRAWLD_DATABASE", "CRAWLD_URLS", "CRAWLD_BANDWIDTH")


@click.command()
@CONFIG
@click.option("--workers", type=click.IntRange(1), required=True, metavar="N", help="How many workers to place.")
@click.option("--address", default="auto", show_default=True, help="The Ray cluster: HOST:6379, or auto: the one here.")
@click.option("--cpus", default=1.0, show_default=True, type=click.FloatRange(0, 64), help="CPUs to reserve a worker.")
@click.option("--name", default="ray", show_default=True, help="Workers are called NAME-1, NAME-2, …")
def command(config_file: Path | None, workers: int, address: str, cpus: float, name: str) -> None:
    """Place workers of a fleet on a Ray cluster, and start them again elsewhere when they or their nodes die.

    The settings are read by each worker at the same path of its own node; CRAWLD_DATABASE, CRAWLD_URLS and
    CRAWLD_BANDWIDTH of this command's environment are handed on. SIGTERM and ctrl-C end all workers cleanly; a command
    that is killed leaves them running, and the next one with the same --name finds them. Needs the
    extra: pip install 'crawld[ray,postgres]' on every node.
    """
    settings = load(config_file, {})
    from crawld.fleet.ray_cluster import RayCluster
    from crawld.main.checks import set_up_logging

    set_up_logging(settings)
    environment = {key: value for key in PASSED_ON if (value := os.environ.get(key))}
    cluster = RayCluster(address, cpus=cpus)
    told = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what signal handlers take
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):  # after Ray, which has handlers of its own
        signal.signal(number, stop)
    try:
        names = [f"{name}-{i + 1}" for i in range(workers)]
        cluster.start(names, None if config_file is None else str(config_file.absolute()), environment)
        cluster.keep(lambda seconds: told.wait(seconds) if seconds else told.is_set())
    finally:
        cluster.stop()
