"""DEVICE. Policy, estimators, cloud client, power meters."""
