"""Suites of many boxes: shards that travel elsewhere, suites that become one, and one that becomes several."""
