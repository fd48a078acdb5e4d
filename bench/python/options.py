"""The options of benches that tune first."""
import argparse


def tuning_parser(documentation, db):
    """Of a script with that text at its head."""
    parser = argparse.ArgumentParser(description=documentation.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="of tuning, a task")
    parser.add_argument("--db", default=db)
    return parser
