"""The tasks behind the scripts, and the experiments and studies that they share."""

from msattn.errors import extra

with extra("train"):
    import pytrec_eval  # noqa: F401
    import scipy  # noqa: F401
    import sklearn  # noqa: F401
