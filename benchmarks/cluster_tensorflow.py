"""One of TensorFlow's grpc servers as a process; options select its task.

It ends by SIGTERM, since `Server.join` never returns.
"""

import argparse
import json
import signal
from pathlib import Path

from benchmarks import peers


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", type=int, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tf = peers.tensorflow()
    cluster = tf.train.ClusterSpec(json.loads(Path(options.cluster).read_text()))
    server = tf.train.Server(cluster, options.job, options.task)
    print(f"listens: {server.target}", flush=True)
    server.join()


if __name__ == "__main__":
    main()
