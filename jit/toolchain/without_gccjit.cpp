// See gccjit_library.hpp: a heddle-compile that runs NVRTC alone.
#include "jit/toolchain/gccjit_library.hpp"

namespace heddle::jit {

std::string gccjit_identity() { return "no libgccjit"; }

std::string gccjit_file() { return {}; }

void compile_by_gccjit(const wire::CompileRequest& /*request*/,
                       const std::filesystem::path& /*directory*/, wire::CompileReply& reply) {
  reply.error = "this heddle-compile has no libgccjit, and serves the cuda backend alone";
}

}  // namespace heddle::jit
