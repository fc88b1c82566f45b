"""`aioflow ca`: certificates for the tasks of a cluster."""

import argparse
from collections.abc import Callable

Run = Callable[[argparse.Namespace], int]


def ca(parser: argparse.ArgumentParser) -> Run:
    """Create a certificate authority for a cluster, and certificates for its machines."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
    texts = {"init": "create an authority and a first certificate, `node`", "issue": "create another certificate"}
    for action, text in texts.items():
        chosen = actions.add_parser(action, help=text, description=text)
        chosen.add_argument("directory", metavar="DIR", help="the directory of the authority and its certificates")
        if action == "issue":
            chosen.add_argument("name", metavar="NAME", help="name of the files NAME.pem and NAME.key")
        chosen.add_argument(
            "--host", action="append", default=[], help="a name or address of a machine that uses it; may be repeated"
        )

    def run(options: argparse.Namespace) -> int:
        from aioflow.net.transport import authority

        if options.action == "init":
            files = authority.init(options.directory, options.host)
        else:
            files = authority.issue(options.directory, options.name, options.host)
        print(*files, sep="\n")
        return 0

    return run
