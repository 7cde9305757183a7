"""fovea-evaluate: how well models answer a user's own data set, and what that costs."""
