"""What is wrong with a data set."""


class DatasetError(Exception):
    """In words for the data set's owner."""
