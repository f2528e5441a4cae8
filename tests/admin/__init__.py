"""The models in Django's admin, as a member of staff sees and uses them."""
