// bare-gccjit DIRECTORY NS: compiles each kernel NNN.loop in DIRECTORY with libgccjit alone, in
// sequence, into NNN.so, loads the library and looks up the kernel. Repeats for NS nanoseconds, and
// prints ns per kernel. A first kernel, not counted, warms libgccjit up. A part of heddle-bench.
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "heddle/status.hpp"
#include "jit/emit/gccjit.hpp"
#include "jit/toolchain/compiler.hpp"
#include "jit/toolchain/gccjit_options.hpp"
#include "tools/bench/harness.hpp"

namespace heddle::bench {
namespace {

struct Kernel {
  jit::CompileUnit unit;
  std::filesystem::path library;
};

std::vector<Kernel> read_kernels(const std::filesystem::path& directory) {
  std::vector<Kernel> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".loop") continue;
    const std::string text = (std::ostringstream() << std::ifstream(entry.path()).rdbuf()).str();
    Kernel kernel{{entry.path().stem(), {}}, entry.path()};
    kernel.library.replace_extension(".so");
    kernel.unit.kernels.push_back({"kernel", jit::parse_loop(text), {}, {}});
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void compile(const Kernel& kernel) {
  gcc_jit_context* const context = gcc_jit_context_acquire();
  jit::set_gccjit_options(context, jit::ToolOptions{}.optimization_level, false,
                          jit::native_target().isa);
  jit::emit_gccjit(context, kernel.unit, jit::native_target());
  gcc_jit_context_compile_to_file(context, GCC_JIT_OUTPUT_KIND_DYNAMIC_LIBRARY,
                                  kernel.library.c_str());
  const char* const error = gcc_jit_context_get_first_error(context);
  if (error != nullptr) throw Error(ErrorCode::compile_failed, error);
  gcc_jit_context_release(context);
  void* const handle = dlopen(kernel.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr || dlsym(handle, jit::kernel_symbol("kernel").c_str()) == nullptr)
    throw Error(ErrorCode::compile_failed, dlerror());
  dlclose(handle);
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using namespace heddle::bench;
  if (argc != 3) {
    fmt::print(stderr, "usage: bare-gccjit DIRECTORY NS; heddle-bench runs it\n");
    return 2;
  }
  try {
    const std::vector<Kernel> kernels = read_kernels(argv[1]);
    compile(kernels.at(0));
    const nanoseconds length(std::atoll(argv[2]));
    fmt::print("{}\n", timed_loop(length, kernels.size(), [&kernels](std::size_t) {
                 for (const Kernel& kernel : kernels) compile(kernel);
               }));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare-gccjit: {}\n", error.what());
    return 1;
  }
}
