// libgccjit, as heddle-compile contains it, or the answers of a heddle-compile without it. One
// thread.
#pragma once

#include <filesystem>
#include <string>

#include "jit/toolchain/helper_wire.hpp"

namespace heddle::jit {

/// "libgccjit 12.2.0, -march=..."
[[nodiscard]] std::string gccjit_identity();
/// The file from which libgccjit was loaded; empty when the loader does not know.
[[nodiscard]] std::string gccjit_file();
/// Fills in the reply: the library with the kernels of the request, or the compiler's messages.
/// Keeps its files in `directory`, and removes them.
void compile_by_gccjit(const wire::CompileRequest& request, const std::filesystem::path& directory,
                       wire::CompileReply& reply);

}  // namespace heddle::jit
