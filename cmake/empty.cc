// For targets that have no source of their own.
