"""The broker process that the package gives to its users' tests serves our own as well."""

from kbroker.broker_process import BrokerProcess as BrokerProcess
