"""``python -m example_project.demo``: the whole service at work, from registration to retries."""
