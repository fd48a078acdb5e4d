from . import jax as jax
from . import torch as torch
from ._kernel import get_num_threads as get_num_threads
from ._kernel import set_num_threads as set_num_threads
from .bundle import Bundle as Bundle
from .bundle import load as load
from .client import Answer as Answer
from .client import Client as Client
from .errors import BadRequest as BadRequest
from .errors import Bug as Bug
from .errors import EnvironmentFailed as EnvironmentFailed
from .errors import Error as Error
from .errors import NotTuned as NotTuned
from .errors import NotValid as NotValid
from .kernel import Kernel as Kernel
from .machine import doctor as doctor
from .machine import targets as targets
from .ops import Arg as Arg
from .ops import Op as Op
from .ops import op as op
from .requests import Capture as Capture
from .requests import capture as capture
from .studies import Study as Study
from .studies import StudyEvent as StudyEvent
from .studies import StudyWorkload as StudyWorkload
from .timing import Timing as Timing
from .tuning import Tuned as Tuned
from .tuning import tune as tune

__all__: list[str]
__version__: str
