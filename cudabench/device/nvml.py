"""A GPU as NVIDIA's management library sees it, for what PyTorch does not tell."""

from typing import Any

from cudabench.records import ClockRates


class NvmlDevice:
    """A GPU as NVIDIA's management library sees it, for what PyTorch does not tell."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.driver = str(nvml.nvmlSystemGetDriverVersion())

    @classmethod
    def of(cls, properties: Any) -> "NvmlDevice | None":
        """Return the GPU of PyTorch's `properties`, or None where NVML is not to be had."""
        import pynvml

        try:
            pynvml.nvmlInit()
            # By its UUID: CUDA_VISIBLE_DEVICES renumbers PyTorch's devices, not NVML's.
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}"))
        except pynvml.NVMLError:
            return None

    def clocks(self) -> ClockRates | None:
        """Return the clocks now, or None where NVML refuses to say."""
        nvml = self._nvml
        try:
            return ClockRates(
                sm_mhz=nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
                memory_mhz=nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM),
                throttle_reasons=self._throttle_reasons(),
            )
        except nvml.NVMLError:
            return None

    def _throttle_reasons(self) -> tuple[str, ...]:
        active = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        names = {
            "gpu idle": self._nvml.nvmlClocksThrottleReasonGpuIdle,
            "applications clocks": self._nvml.nvmlClocksThrottleReasonApplicationsClocksSetting,
            "software power cap": self._nvml.nvmlClocksThrottleReasonSwPowerCap,
            "hardware slowdown": self._nvml.nvmlClocksThrottleReasonHwSlowdown,
            "sync boost": self._nvml.nvmlClocksThrottleReasonSyncBoost,
            "software thermal": self._nvml.nvmlClocksThrottleReasonSwThermalSlowdown,
            "hardware thermal": self._nvml.nvmlClocksThrottleReasonHwThermalSlowdown,
            "hardware power brake": self._nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
        }
        return tuple(name for name, bit in names.items() if active & bit)
