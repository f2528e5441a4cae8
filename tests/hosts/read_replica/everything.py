"""Call everything that the app offers. Print the problems by name as JSON, and the number of calls."""

import json
import os
import traceback

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")

import django

django.setup()

from django.test.utils import setup_test_environment

setup_test_environment()

import commands
import console
import customers
import requests_to_api


def main():
    assert requests_to_api.CALLS.keys() == requests_to_api.names()
    assert commands.covered() == commands.names()
    modules = {
        requests_to_api: requests_to_api.CALLS,
        commands: commands.CALLS,
        console: console.names(),
        customers: customers.names(),
    }
    problems = {name: found for module, names in modules.items() for name in names if (found := tried(module, name))}
    return {"problems": problems, "calls": {each.__name__: len(names) for each, names in modules.items()}}


def tried(module, name):
    try:
        return module.problem(name)
    except Exception:  # noqa: BLE001 - shown by the test
        return traceback.format_exc(limit=-6)


if __name__ == "__main__":
    print(json.dumps(main()))
