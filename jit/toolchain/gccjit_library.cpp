// See gccjit_library.hpp.
#include "jit/toolchain/gccjit_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <libgccjit.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "files/temp_dir.hpp"
#include "jit/emit/gccjit.hpp"
#include "jit/toolchain/gccjit_options.hpp"

namespace heddle::jit {
namespace {

struct ReleaseContext {
  void operator()(gcc_jit_context* context) const noexcept { gcc_jit_context_release(context); }
};
using ContextPtr = std::unique_ptr<gcc_jit_context, ReleaseContext>;

CompileUnit unit_of(const wire::CompileRequest& request) {
  CompileUnit unit;
  unit.name = request.unit_name;
  unit.trace_values = request.trace_values;
  for (const wire::KernelText& text : request.kernels) {
    KernelSource kernel;
    kernel.name = text.name;
    kernel.loop = parse_loop(text.loop);
    kernel.addresses = text.addresses;
    unit.kernels.push_back(std::move(kernel));
  }
  return unit;
}

Target target_of(const wire::CompileRequest& request) {
  const auto target = Target::parse(request.target);
  if (!target) throw Error(ErrorCode::internal, "no target: '" + request.target + "'");
  return *target;
}

}  // namespace

std::string gccjit_identity() {
  const std::string_view machine = gccjit_machine_option(native_target().isa);
  return fmt::format("libgccjit {}.{}.{}{}{}", gcc_jit_version_major(), gcc_jit_version_minor(),
                     gcc_jit_version_patchlevel(), machine.empty() ? "" : ", ", machine);
}

std::string gccjit_file() {
  Dl_info info{};
  const auto* const inside = reinterpret_cast<const void*>(&gcc_jit_context_acquire);
  return dladdr(inside, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

void compile_by_gccjit(const wire::CompileRequest& request, const std::filesystem::path& directory,
                       wire::CompileReply& reply) {
  const auto library_file = directory / "unit.so";
  std::error_code ignored;
  try {
    const CompileUnit unit = unit_of(request);
    const ContextPtr context(gcc_jit_context_acquire());
    const Target target = target_of(request);
    set_gccjit_options(context.get(), static_cast<int>(request.optimization_level),
                       request.fast_math, target.isa);
    emit_gccjit(context.get(), unit, target);
    if (request.want_dump) {
      const auto dump_path = directory / "unit.c";
      gcc_jit_context_dump_to_file(context.get(), dump_path.c_str(), 0);
      std::ifstream file(dump_path);
      reply.dump = (std::ostringstream() << file.rdbuf()).str();
      std::filesystem::remove(dump_path, ignored);
    }
    gcc_jit_context_compile_to_file(context.get(), GCC_JIT_OUTPUT_KIND_DYNAMIC_LIBRARY,
                                    library_file.c_str());
    if (const char* error = gcc_jit_context_get_first_error(context.get()); error != nullptr) {
      reply.error = error;
    } else {
      reply.library.bytes = files::read_file(library_file, image_bytes_max);
      reply.library.sum = checksum(reply.library.bytes);
      reply.ok = true;
    }
  } catch (const Error& error) {
    reply.error = error.status().to_string();
    reply.caller_at_fault = error.code() == ErrorCode::invalid_argument;
  } catch (const std::exception& error) {
    reply.error = error.what();
  }
  std::filesystem::remove(library_file, ignored);
}

}  // namespace heddle::jit
