//! Placeholder removed by the next commit.
