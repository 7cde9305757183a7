"""The tests of the Python package. For those in the folders below, pytest puts this folder on the path, and with it the fakes."""
