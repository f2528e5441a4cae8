"""What may not happen, whatever happens: the app against real servers that are killed, emptied, frozen and filled."""
