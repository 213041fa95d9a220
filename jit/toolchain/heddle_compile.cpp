// heddle-compile: the process in which libgccjit and NVRTC run, so their failures cannot end, hang
// or lock the host. Started by libheddle as `heddle-compile --serve DIRECTORY` with a socket as
// stdin; compiles one unit at a time, keeps its files in DIRECTORY, and ends when the socket
// closes. One thread.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "jit/toolchain/gccjit_library.hpp"
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

wire::CompileReply compile(const wire::CompileRequest& request,
                           const std::filesystem::path& directory) {
  wire::CompileReply reply;
  if (request.nvrtc) {
    compile_by_nvrtc(*request.nvrtc, request.unit_name, reply);
  } else {
    compile_by_gccjit(request, directory, reply);
  }
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
  hello.compiler = gccjit_identity();
  hello.library = gccjit_file();
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
    fmt::print("heddle-compile {} ({})\n", HEDDLE_VERSION, gccjit_identity());
    return 0;
  }
  fmt::print(stderr,
             "heddle-compile is started by libheddle to compile kernels with libgccjit or NVRTC.\n"
             "usage: heddle-compile --version\n");
  return 2;
}
