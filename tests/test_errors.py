"""Which words of libraries are of a GPU that a new process may have again."""

from __future__ import annotations

import pytest

from counterfactory.engine.errors import lost_device

LOST = """
CUDA's cudaStreamSynchronize failed with cudaErrorIllegalAddress: an illegal memory access was encountered
CUDA's cuLaunchKernel failed with CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered
CUDA's cudaGraphLaunch failed with cudaErrorLaunchFailure: unspecified launch failure
CUDA's cuLaunchKernel failed with CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure
CUDA's cudaStreamSynchronize failed with cudaErrorLaunchTimeout: the launch timed out and was terminated
CUDA's cudaMalloc failed with cudaErrorMemoryAllocation: out of memory
CUDA's cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY: out of memory
CUDA's cudaStreamSynchronize failed with cudaErrorECCUncorrectable: uncorrectable ECC error encountered
CUDA's cudaStreamSynchronize failed with cudaErrorNvlinkUncorrectable: uncorrectable NVLink error detected
CUDA's cudaStreamSynchronize failed with cudaErrorMisalignedAddress: misaligned address
CUDA's cudaStreamSynchronize failed with cudaErrorHardwareStackError: hardware stack error
CUDA's cudaStreamSynchronize failed with cudaErrorIllegalInstruction: an illegal instruction was encountered
CUDA's cudaStreamSynchronize failed with cudaErrorInvalidAddressSpace: operation not supported on global/shared space
CUDA's cudaStreamSynchronize failed with cudaErrorInvalidPc: invalid program counter
CUDA's cudaStreamSynchronize failed with cudaErrorAssert: device-side assert triggered
CUDA's cudaStreamSynchronize failed with cudaErrorUnknown: unknown error
CUDA's cudaMalloc failed with cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable
CUDA's cuMemAlloc failed with CUDA_ERROR_CONTEXT_IS_DESTROYED: context is destroyed
CUDA's cudaStreamSynchronize failed with cudaErrorContained: Invalid access of peer GPU memory over nvlink
CUDA's cudaStreamSynchronize failed with cudaErrorExternalDevice: exception on an external device
CUDA error: an illegal memory access was encountered
CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 22.06 GiB
CUDA error: device-side assert triggered
CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle, opa, opb, m, n, k)`
cuDNN error: CUDNN_STATUS_INTERNAL_ERROR
CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=box ; file=cuda_call.cc ; line=129
CUDA failure 2: out of memory ; GPU=0 ; hostname=box ; expr=cudaMalloc((void**)&p, size);
"""
LASTING = """
CUDA's cudaGetDeviceCount failed with cudaErrorNoDevice: no CUDA-capable device is detected
CUDA's cudaStreamCreate failed with cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime
CUDA's cudaMemcpyAsync failed with cudaErrorInvalidValue: invalid argument
CUDA's cuModuleLoadData failed with CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution
CUDA's cudaStreamBeginCapture failed with cudaErrorStreamCaptureUnsupported: operation not permitted when capturing
CUDA error: no kernel image is available for execution on the device
plan vae_decoder accepts batch 1-8, got 12; rebuild with --max-batch 12
the system gave no more memory
std::bad_alloc
[Errno 12] Cannot allocate memory
Out of memory
unknown error
"""


@pytest.mark.parametrize("text", LOST.strip().splitlines())
def test_words_of_a_lost_device(text: str) -> None:
    assert lost_device(text)


@pytest.mark.parametrize("text", LASTING.strip().splitlines())
def test_words_of_what_lasts_or_is_no_device(text: str) -> None:
    assert not lost_device(text)
