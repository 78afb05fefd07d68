"""tmp"""
from adversary.privacy.mechanisms import *
from adversary.privacy.definitions import *
from adversary.reader.plans import Level, Plan
from adversary.reader.inference import Adversary
from adversary.reader.beliefs import *
from adversary.reader.releases import observed
