// The gccjit compiler: loop text to heddle-compile, a shared library back. Nothing of libgccjit
// runs in this process. compile() may be called from any thread; as many run at once as there are
// CPUs.
#include <fmt/format.h>

#include <algorithm>

#include "jit/emit.hpp"
#include "jit/helper.hpp"
#include "jit/temp_dir.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

/// The host ends a slow helper; the helper's own alarm is for when there is no host any more.
constexpr std::uint32_t grace_seconds = 5;

class GccjitCompiler final : public Compiler {
 public:
  explicit GccjitCompiler(const ToolOptions& options) : options_(options), pool_(options) {}

  std::string_view name() const noexcept override { return "gccjit"; }
  Target target() const noexcept override { return options_.target; }

  Status available() const override {
    try {
      static_cast<void>(find_helper(options_));
      return {};
    } catch (const Error& error) {
      return error.status();
    }
  }

  std::string describe() const override {
    try {
      const auto helper = pool_.lease();
      return fmt::format("gccjit: {} ({}) -O{}", find_helper(options_).string(),
                         helper->hello().compiler, options_.optimization_level);
    } catch (const Error& error) {
      return fmt::format("gccjit: {}", error.status().message());
    }
  }

  std::shared_ptr<const Module> compile(const CompileUnit& unit) const override {
    check_unit(unit);
    std::string source;
    const wire::CompileRequest request = request_for(unit, source);
    dump(options_, unit.name, "loop", source);
    const auto helper = pool_.lease();
    const auto start = steady_clock::now();
    wire::CompileReply reply;
    try {
      reply = helper->compile(request, deadline_after(options_.compile_timeout));
    } catch (const Error& error) {
      fail(unit, source, error.code(), error.status().message(), {});
    }
    const std::string output = helper->take_output();
    if (!reply.dump.empty()) dump(options_, unit.name, "gccjit.c", reply.dump);
    if (!reply.ok) {
      fail(unit, source,
           reply.caller_at_fault ? ErrorCode::invalid_argument : ErrorCode::compile_failed,
           fmt::format("{}\n  output: {}", reply.error, output.empty() ? "(none)" : output), {});
    }
    ModuleInfo info{unit.name, {}, source, steady_clock::now() - start};
    for (const KernelSource& kernel : unit.kernels) info.kernels.push_back(kernel.name);
    try {
      return load_module(reply.library, std::move(info));
    } catch (const Error& error) {
      fail(unit, source, error.code(), "what it made cannot be loaded", error.status());
    }
  }

 private:
  /// Fills `source` with the loop text of all kernels.
  wire::CompileRequest request_for(const CompileUnit& unit, std::string& source) const {
    wire::CompileRequest request;
    request.unit_name = unit.name;
    request.optimization_level = static_cast<std::uint32_t>(options_.optimization_level);
    request.target = options_.target.to_string();
    request.fast_math = options_.fast_math;
    request.trace_values = unit.trace_values;
    request.want_dump = !options_.dump_dir.empty();
    const auto timeout = std::chrono::ceil<std::chrono::seconds>(
        deadline_after(options_.compile_timeout) - steady_clock::now());
    request.seconds_max =
        static_cast<std::uint32_t>(std::max<std::int64_t>(timeout.count(), 0)) + grace_seconds;
    for (const KernelSource& kernel : unit.kernels) {
      wire::KernelText text{kernel.name, print(*kernel.loop, &kernel.names), kernel.addresses};
      source += fmt::format("# kernel {}\n{}", kernel.name, text.loop);
      request.kernels.push_back(std::move(text));
    }
    return request;
  }

  [[noreturn]] void fail(const CompileUnit& unit, const std::string& source, ErrorCode code,
                         std::string_view what, const Status& cause) const {
    throw Error(code,
                fmt::format("gccjit could not compile unit '{:.200}': {}\n  {}", unit.name, what,
                            keep_source(options_, unit.name, "loop", source)),
                cause);
  }

  ToolOptions options_;
  mutable HelperPool pool_;
};

}  // namespace

std::shared_ptr<const Compiler> make_gccjit_compiler(const ToolOptions& options) {
  return std::make_shared<GccjitCompiler>(options);
}

}  // namespace heddle::jit
