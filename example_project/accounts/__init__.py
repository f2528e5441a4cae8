"""Accounts: registered, subscribed to a plan, unsubscribed."""
