"""The agent of `programs`, in workers that die where the environment says."""

from tests.python.faults import worker_points
from tests.python.faults.programs import agent

__all__ = ["agent"]

worker_points.arm()
