"""LakeAlarms: the alarms of a lake over time, with the figures that they are about."""
