// The nvrtc compiler: sends CUDA C++ text to heddle-compile and receives a binary for one kind of
// GPU. NVRTC does not run in this process. Any thread; at most as many builds at once as CPUs.
#include <fmt/format.h>

#include "files/temp_dir.hpp"
#include "jit/emit/cuda.hpp"
#include "jit/toolchain/helper.hpp"
#include "jit/toolchain/toolchain.hpp"

namespace heddle::jit {
namespace {

using std::chrono::steady_clock;

class NvrtcToolchain final : public Toolchain {
 public:
  explicit NvrtcToolchain(const ToolOptions& options) : options_(options), pool_(options) {}

  std::string_view name() const noexcept override { return "nvrtc"; }

  Status available() const override { return helper_status(options_); }

  std::string describe() const override {
    const ToldVersion told = ask_version(deadline_after(options_.compile_timeout));
    return fmt::format("nvrtc: {} ({})", told.text, told.library.string());
  }

  EmittedUnit emit(const CompileUnit& unit) const override {
    EmittedUnit emitted;
    emitted.source = emit_cuda(unit, options_.target);
    emitted.essence = without_comments(emitted.source, "//");
    emitted.kind = fmt::format("cubin-sm-{}", options_.target.sm);
    for (const KernelSource& kernel : unit.kernels)
      emitted.shapes.push_back(launch_shape(*kernel.loop));
    return emitted;
  }

  Recipe recipe() const override {
    std::string text = options_.target.to_string();
    for (const std::string& option : nvrtc_options()) text += " " + option;
    return {std::move(text), helper_stamp(options_) + " " + options_.nvrtc.string()};
  }

  std::optional<std::string> version(KernelCache& cache, const std::string& files,
                                     const Patience& patience) const override {
    return versions_.find(cache, files, [&] { return ask_version(patience); });
  }

  Compiled build(const CompileUnit& unit, const EmittedUnit& emitted,
                 const Patience& patience) const override {
    dump_unoptimized(options_, unit);
    dump(options_.dump_dir, unit.name, "cu", emitted.source);
    const auto start = steady_clock::now();
    wire::CompileRequest request = request_for(patience);
    request.unit_name = unit.name;
    request.nvrtc->source = emitted.source;
    wire::CompileReply reply;
    try {
      reply = pool_.lease(patience)->compile(request, patience);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) throw;
      fail(unit, emitted, error.code(), error.status().message(), {});
    }
    if (!reply.ok) {
      const bool is_there = !reply.version.empty();
      fail(unit, emitted, is_there ? ErrorCode::compile_failed : ErrorCode::unavailable,
           reply.error, {});
    }
    try {
      return compiled(unit, emitted, std::move(reply.library), start);
    } catch (const Error& error) {
      fail(unit, emitted, error.code(), "what it made cannot be loaded", error.status());
    }
  }

 private:
  /// The rounding of CPU compilers (cc_flags): a multiply and an add are rounded separately, and
  /// quotients and square roots follow IEEE 754, subnormal numbers included.
  std::vector<std::string> nvrtc_options() const {
    std::vector<std::string> options{fmt::format("--gpu-architecture=sm_{}", options_.target.sm),
                                     "--std=c++17", "--fmad=false"};
    if (options_.fast_math) options = {options[0], options[1], "--use_fast_math"};
    return options;
  }

  wire::CompileRequest request_for(const Patience& patience) const {
    wire::CompileRequest request;
    request.nvrtc =
        wire::NvrtcRequest{options_.nvrtc.string(), options_.cuda_major, {}, nvrtc_options()};
    request.seconds_max = helper_seconds(patience);
    return request;
  }

  ToldVersion ask_version(const Patience& patience) const {
    const wire::CompileReply reply =
        pool_.lease(patience)->compile(request_for(patience), patience);
    if (!reply.ok) throw Error(ErrorCode::unavailable, reply.error);
    return {reply.version, reply.file};
  }

  [[noreturn]] void fail(const CompileUnit& unit, const EmittedUnit& emitted, ErrorCode code,
                         std::string_view what, const Status& cause) const {
    throw Error(code,
                fmt::format("nvrtc could not compile unit '{:.200}': {}\n  {}", unit.name, what,
                            keep_source(options_.temp_dir, unit.name, "cu", emitted.source)),
                cause);
  }

  ToolOptions options_;
  mutable HelperPool pool_;
  mutable VersionMemory versions_{"nvrtc"};
};

}  // namespace

std::shared_ptr<const Compiler> make_nvrtc_compiler(const ToolOptions& options) {
  return make_compile_service(std::make_unique<NvrtcToolchain>(options), options);
}

}  // namespace heddle::jit
