"""Errors that a user can do something about: what happened, what to do, and the exit code."""


class CudabenchError(Exception):
    """A failure with a remedy; the command line shows it in one line and exits with its code.

    Attributes:
        exit_code: What the process exits with.
        remedy: What to do about it, or "" where nothing is known.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}. {self.remedy}" if self.remedy else message


class BadInputError(CudabenchError):
    """An option or an argument that cannot be used."""


class DeviceError(CudabenchError):
    """A device that is absent, too small or failed."""


class BuildError(CudabenchError):
    """A kernel that could not be compiled or loaded."""


class ProfilerError(CudabenchError):
    """A profiler, or what one wrote, that cannot be used."""


class EventNotReadyError(Exception):
    """An event was read before the stream had passed it, or was never recorded."""


class MeasurementWarning(UserWarning):
    """A reason to read an estimate with care."""
