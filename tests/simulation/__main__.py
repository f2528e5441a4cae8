"""Run histories of new seeds, and print the story of the first broken one, shrunk.

``python -m tests.simulation --minutes 10`` uses all processors; ``--seed 42`` repeats one history and prints its story.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Sequence

import django


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="(default: %(default)s)")
    parser.add_argument("--histories", type=int, help="stop after this number")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="(default: all processors)")
    parser.add_argument("--seed", type=int, help="repeat one history")
    parser.add_argument("--from", type=int, dest="first_seed", help="the first seed (default: a random one)")
    parser.add_argument("--first", action="store_true", help="stop at the first broken history")
    parser.add_argument("--quiet", action="store_true", help="do not tell stories")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ.setdefault("TEST_DATABASE_URL", "sqlite:///:memory:")  # not used
    django.setup()
    from .histories import outcome_of, run_in_processes, run_until_broken, story_of
    from .plan import plan_of
    from .shrinking import shrunk

    if options.seed is not None:
        print(*story_of(plan_of(options.seed)), outcome_of(plan_of(options.seed)), sep="\n")
        return 0
    first_seed = options.first_seed if options.first_seed is not None else secrets.randbelow(10**12)
    if options.first and options.processes == 1:
        total = run_until_broken(range(first_seed, first_seed + (options.histories or 10**9)))
    else:
        limits = {"seconds": 60 * options.minutes} if options.histories is None else {"histories": options.histories}
        for total in run_in_processes(first_seed, processes=options.processes, **limits):
            if not options.quiet:
                print(f"\r{total}", end="", flush=True, file=sys.stderr)
            if total.broken and options.first:
                break
    print(total)
    for outcome in total.broken[:10]:
        print(f"seed {outcome.seed}: {outcome.text}")
    if total.broken and not options.quiet:
        plan = shrunk(plan_of(total.broken[0].seed), total.broken[0].invariant)
        print(f"The shortest history found from seed {plan.seed}:", plan, *story_of(plan), sep="\n")
    return int(bool(total.broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
