"""A project whose users own webhooks and log in by e-mail address."""
