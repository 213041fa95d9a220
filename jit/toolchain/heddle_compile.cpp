// heddle-compile: the process in which libgccjit and NVRTC run, so their failures cannot end, hang
// or lock the host. Started by libheddle as `heddle-compile --serve DIRECTORY` with a socket as
// stdin; compiles one unit at a time, keeps its files in DIRECTORY, and ends when the socket
// closes. One thread.
#include <dlfcn.h>
#include <fmt/format.h>
#include <libgccjit.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include "files/temp_dir.hpp"
#include "jit/emit/gccjit.hpp"
#include "jit/toolchain/gccjit_options.hpp"
#include "jit/toolchain/helper_wire.hpp"
#include "jit/toolchain/nvrtc_library.hpp"

namespace heddle::jit {
namespace {

/// A larger heap of libgccjit means a runaway compile.
constexpr rlim_t address_space_bytes_max = rlim_t{16} << 30;

/// Sanitizers reserve far more address space than they use.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool sanitized = false;
#endif

struct ReleaseContext {
  void operator()(gcc_jit_context* context) const noexcept { gcc_jit_context_release(context); }
};
using ContextPtr = std::unique_ptr<gcc_jit_context, ReleaseContext>;

std::string compiler_identity() {
  const std::string_view machine = gccjit_machine_option(native_target().isa);
  return fmt::format("libgccjit {}.{}.{}{}{}", gcc_jit_version_major(), gcc_jit_version_minor(),
                     gcc_jit_version_patchlevel(), machine.empty() ? "" : ", ", machine);
}

/// The file from which libgccjit was loaded; empty when the loader does not know.
std::string library_path() {
  Dl_info info{};
  const auto* const inside = reinterpret_cast<const void*>(&gcc_jit_context_acquire);
  return dladdr(inside, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

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

wire::CompileReply compile(const wire::CompileRequest& request,
                           const std::filesystem::path& directory) {
  wire::CompileReply reply;
  if (request.nvrtc) {
    compile_by_nvrtc(*request.nvrtc, request.unit_name, reply);
    return reply;
  }
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
  return reply;
}

/// false: the host is gone.
bool read_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

bool write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(STDIN_FILENO, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

/// One request; nullopt when the host is gone or sent a malformed frame.
std::optional<wire::CompileRequest> next_request() {
  wire::FrameHeader header;
  if (!read_all(std::as_writable_bytes(std::span(&header, 1)))) return std::nullopt;
  if (const Status status = wire::check_header(header, wire::Kind::request); !status.ok()) {
    fmt::print(stderr, "heddle-compile: {}\n", status.message());
    return std::nullopt;
  }
  wire::Bytes payload(header.payload_bytes);
  if (!read_all(payload)) return std::nullopt;
  if (const Status status = wire::check_payload(header, payload); !status.ok()) {
    fmt::print(stderr, "heddle-compile: {}\n", status.message());
    return std::nullopt;
  }
  return wire::decode_request(payload);
}

void limit_self() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (!sanitized) {
    const rlimit memory{address_space_bytes_max, address_space_bytes_max};
    setrlimit(RLIMIT_AS, &memory);
  }
  // A hung assembler must not outlive the host: the alarm ends the whole process group.
  struct sigaction end_group{};
  end_group.sa_handler = [](int) { kill(0, SIGKILL); };
  sigaction(SIGALRM, &end_group, nullptr);
}

void serve(const std::filesystem::path& directory) {
  limit_self();
  wire::Hello hello;
  hello.version = HEDDLE_VERSION;
  hello.compiler = compiler_identity();
  hello.library = library_path();
  if (!write_all(wire::encode(hello))) return;
  while (const auto request = next_request()) {
    alarm(request->seconds_max);
    const wire::Bytes reply = wire::encode(compile(*request, directory));
    alarm(0);
    if (!write_all(reply)) break;
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);  // the host may be gone
}

}  // namespace
}  // namespace heddle::jit

int main(int argc, char** argv) {
  using namespace heddle::jit;
  if (argc == 3 && std::string_view(argv[1]) == "--serve") {
    try {
      serve(argv[2]);
    } catch (const std::exception& error) {
      fmt::print(stderr, "heddle-compile: {}\n", error.what());
      std::fflush(stderr);
      _exit(1);
    }
    _exit(0);  // no destructors: taking libgccjit's state apart is not worthwhile
  }
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    fmt::print("heddle-compile {} ({})\n", HEDDLE_VERSION, compiler_identity());
    return 0;
  }
  fmt::print(stderr,
             "heddle-compile is started by libheddle to compile kernels with libgccjit or NVRTC.\n"
             "usage: heddle-compile --version\n");
  return 2;
}
