"""``python -m example_project.demo``: the whole service in action, from registration to retries."""
