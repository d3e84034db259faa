-- Those who come register one after the other.
SELECT FROM hitl.meta FOR UPDATE
