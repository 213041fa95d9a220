// The gccjit compiler: sends loop text to heddle-compile and receives a shared library. libgccjit
// does not run in this process. Any thread; at most as many builds at once as CPUs.
#include <fmt/format.h>

#include "files/temp_dir.hpp"
#include "jit/emit/emit.hpp"
#include "jit/system/process_room.hpp"
#include "jit/system/programs.hpp"
#include "jit/toolchain/helper.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

class GccjitToolchain final : public Toolchain {
 public:
  explicit GccjitToolchain(const ToolOptions& options) : options_(options), pool_(options) {}

  std::string_view name() const noexcept override { return "gccjit"; }

  Status available() const override { return helper_status(options_); }

  std::string describe() const override {
    const auto helper = pool_.lease(deadline_after(options_.compile_timeout));
    return fmt::format("gccjit: {} ({}) -O{}", find_helper(options_).string(),
                       helper->hello().compiler, options_.optimization_level);
  }

  EmittedUnit emit(const CompileUnit& unit) const override {
    check_unit(unit);
    EmittedUnit emitted;
    for (const KernelSource& kernel : unit.kernels)
      emitted.source += heading(kernel, "#") + loop_text(kernel);
    emitted.essence = without_comments(emitted.source, "#");
    return emitted;
  }

  Recipe recipe() const override {
    return {fmt::format("-O{}{} {}", options_.optimization_level,
                        options_.fast_math ? " fast_math" : "", options_.target.to_string()),
            helper_stamp(options_)};
  }

  /// The recipe contains the helper's own file. The helper finds libgccjit, whose file is
  /// remembered together with the version.
  std::optional<std::string> version(KernelCache& cache, const std::string& files,
                                     const Patience& patience) const override {
    return versions_.find(cache, files, [&] {
      const auto helper = pool_.lease(patience);
      return ToldVersion{helper->hello().compiler, helper->hello().library};
    });
  }

  Compiled build(const CompileUnit& unit, const EmittedUnit& emitted,
                 const Patience& patience) const override {
    const std::string& source = emitted.source;
    const wire::CompileRequest request = request_for(unit, patience);
    dump_unoptimized(options_, unit);
    dump(options_.dump_dir, unit.name, "loop", source);
    auto [reply, output, start] = ask(unit, source, request, patience);
    if (!reply.dump.empty()) dump(options_.dump_dir, unit.name, "gccjit.c", reply.dump);
    if (!reply.ok) {
      fail(unit, source,
           reply.caller_at_fault ? ErrorCode::invalid_argument : ErrorCode::compile_failed,
           fmt::format("{}\n  output: {}", reply.error, output.empty() ? "(none)" : output), {});
    }
    try {
      return compiled(unit, emitted, std::move(reply.library), start);
    } catch (const Error& error) {
      fail(unit, source, error.code(), "what it made cannot be loaded", error.status());
    }
  }

 private:
  struct Answer {
    wire::CompileReply reply;
    std::string output;
    steady_clock::time_point start;
  };

  /// Compiles of one process share libgccjit's state, which breaks some compiles: GCC 12.2 can
  /// report one of its own instructions as unrecognizable in any compile but the first. Where a
  /// used helper dies, a new helper therefore repeats the compile. Where the new helper dies too,
  /// as GCC 12.2 does on some loops that it vectorises, a further helper compiles without
  /// vectorisation, which leaves vectors to schedules.
  Answer ask(const CompileUnit& unit, const std::string& source, wire::CompileRequest request,
             const Patience& patience) const {
    for (auto want = HelperPool::Want::any;; want = HelperPool::Want::unused) {
      const auto helper = pool_.lease(patience, want);
      check_process_room(compiler_processes - 1);
      const bool is_used = helper->is_used();
      const auto start = steady_clock::now();
      try {
        wire::CompileReply reply = helper->compile(request, patience);
        return {std::move(reply), helper->take_output(), start};
      } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        const bool makes_vectors = request.optimization_level > 1;
        if (error.code() != ErrorCode::compile_failed || (!is_used && !makes_vectors))
          fail(unit, source, error.code(), error.status().message(), {});
        if (!is_used) request.optimization_level = 1;
      }
    }
  }

  static std::string loop_text(const KernelSource& kernel) {
    return print(*kernel.loop, &kernel.names);
  }

  wire::CompileRequest request_for(const CompileUnit& unit, const Patience& patience) const {
    wire::CompileRequest request;
    request.unit_name = unit.name;
    request.optimization_level = static_cast<std::uint32_t>(options_.optimization_level);
    request.target = options_.target.to_string();
    request.fast_math = options_.fast_math;
    request.trace_values = unit.trace_values;
    request.want_dump = !options_.dump_dir.empty();
    request.seconds_max = helper_seconds(patience);
    for (const KernelSource& kernel : unit.kernels)
      request.kernels.push_back({kernel.name, loop_text(kernel), kernel.addresses});
    return request;
  }

  [[noreturn]] void fail(const CompileUnit& unit, const std::string& source, ErrorCode code,
                         std::string_view what, const Status& cause) const {
    throw Error(code,
                fmt::format("gccjit could not compile unit '{:.200}': {}{}\n  {}", unit.name, what,
                            missing_program_advice(what, options_.environment),
                            keep_source(options_.temp_dir, unit.name, "loop", source)),
                cause);
  }

  ToolOptions options_;
  mutable HelperPool pool_;
  mutable VersionMemory versions_{"gccjit"};
};

}  // namespace

std::shared_ptr<const Compiler> make_gccjit_compiler(const ToolOptions& options) {
  return make_compile_service(std::make_unique<GccjitToolchain>(options), options);
}

}  // namespace heddle::jit
