// NVRTC, NVIDIA's compiler of CUDA C++, as loaded by heddle-compile. One thread.
#pragma once

#include <string>

#include "jit/toolchain/helper_wire.hpp"

namespace heddle::jit {

/// Fills in the reply: the binary for the card given by the options, or the compiler's messages;
/// for a request without a source, version and file.
void compile_by_nvrtc(const wire::NvrtcRequest& request, const std::string& unit_name,
                      wire::CompileReply& reply);

}  // namespace heddle::jit
