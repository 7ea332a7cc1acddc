"""YAML -> ``RunConfig`` and ``Policy``. The only reader of config files and of environment variables.

Every key is checked: unknown keys, wrong types and impossible values are refused with file, line and what is allowed. Values are never
guessed from text: ``1e-3`` (which YAML reads as text), ``"4"`` or ``on`` where a number is wanted are errors with a hint.
Relative paths are relative to the file they stand in.
"""

from quantgate.config.environment import (
    ContinuousIntegration as ContinuousIntegration,
    ci_of_environment as ci_of_environment,
    default_cache as default_cache,
    tracking_uri_of_environment as tracking_uri_of_environment,
)
from quantgate.config.policy import (
    LIMITS as LIMITS,
    UNCORRECTED as UNCORRECTED,
    load_policy as load_policy,
    policy_error as policy_error,
    policy_schema as policy_schema,
    policy_schema_text as policy_schema_text,
    uncorrected as uncorrected,
)
from quantgate.config.rules import refuse_uncorrected as refuse_uncorrected
from quantgate.config.run import RunConfig as RunConfig, load_run as load_run
from quantgate.config.symptoms import load_symptoms as load_symptoms
