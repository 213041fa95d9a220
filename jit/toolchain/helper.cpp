// See toolchain/helper.hpp.
#include "jit/toolchain/helper.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <thread>

#include "jit/cache/key.hpp"
#include "jit/system/limits.hpp"
#include "jit/system/programs.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::jit {
namespace fs = std::filesystem;
namespace {

/// libgccjit leaks a little memory in every compile, hence helpers are replaced after this many
/// compiles.
constexpr std::size_t compiles_per_helper_max = 500;

/// The file of this code, from the kernel's map. The loader's name may be relative to a directory
/// that the process has left. Empty without /proc.
fs::path mapped_file() {
  const auto here = reinterpret_cast<std::uintptr_t>(&helper_places);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    int path_at = 0;
    // BEGIN-END MODE OFFSET DEVICE INODE PATH
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &begin, &end,
                    &path_at) == 2 &&
        begin <= here && here < end && path_at > 0)
      return line.substr(static_cast<std::size_t>(path_at));
  }
  return {};
}

/// The same file, under the loader's name.
fs::path loaded_file() {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<const void*>(&helper_places), &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : fs::path();
}

/// True if `mapped` is the running program: heddle is linked statically.
bool is_program(const fs::path& mapped) {
  std::error_code error;
  return !mapped.empty() && fs::read_symlink("/proc/self/exe", error) == mapped;
}

Command helper_command(const ToolOptions& options, const fs::path& path,
                       const fs::path& directory) {
  Command command{{path.string(), "--serve", directory.string()}, {"LC_ALL=C"}};
  command.environment.insert(command.environment.end(), options.environment.begin(),
                             options.environment.end());
  command.environment.push_back("TMPDIR=" + directory.string());
  return command;
}

}  // namespace

std::optional<fs::path> code_directory(const fs::path& mapped, const fs::path& loaded) {
  for (const fs::path& file : {mapped, loaded}) {
    std::error_code error;
    const fs::path found = file.is_absolute() ? fs::canonical(file, error) : fs::path();
    if (!found.empty() && !error) return found.parent_path();
  }
  return std::nullopt;
}

std::vector<fs::path> helper_places(const ToolOptions& options) {
  if (!options.compile_helper.empty()) return {options.compile_helper};
  std::vector<fs::path> places;
  const auto add = [&places](const fs::path& directory) {
    places.push_back((directory / "heddle-compile").lexically_normal());
  };
  // Never destroyed: compiles ask for the directory during exit too.
  static sched::NeverDestroyed<const std::optional<fs::path>> own(
      code_directory(mapped_file(), loaded_file()));
  if (const std::optional<fs::path>& here = *own) {
    add(*here);
    // The installed libexec directory, relative to this file, hence valid after the tree was moved.
    static const bool in_program = is_program(mapped_file());
    add(*here / (in_program ? HEDDLE_HELPER_DIR_FROM_BIN : HEDDLE_HELPER_DIR_FROM_LIB));
  }
  return places;
}

fs::path find_helper(const ToolOptions& options) {
  std::string tried;
  for (const fs::path& place : helper_places(options)) {
    if (const auto found = find_program(fs::absolute(place).string(), {})) return *found;
    tried += "\n  " + place.string();
  }
  if (tried.empty()) {
    tried =
        " nothing, as nobody says where this library is: /proc is missing, or the library's "
        "file was replaced since it was loaded, and the loader knows a relative path alone";
  }
  throw Error(
      ErrorCode::unavailable,
      fmt::format("heddle-compile, which compiles for gccjit, was not found as an executable "
                  "file; install it, or set HEDDLE_COMPILE_HELPER to its path; tried:{}",
                  tried));
}

Status helper_status(const ToolOptions& options) {
  try {
    static_cast<void>(find_helper(options));
    return {};
  } catch (const Error& error) {
    return error.status();
  }
}

std::string helper_stamp(const ToolOptions& options) {
  try {
    return file_stamp(find_helper(options));
  } catch (const Error&) {
    return "missing";
  }
}

std::uint32_t helper_seconds(const Patience& patience) {
  constexpr std::uint32_t grace_seconds = 5;
  const auto left = std::chrono::ceil<std::chrono::seconds>(patience.deadline() -
                                                            std::chrono::steady_clock::now());
  return static_cast<std::uint32_t>(std::max<std::int64_t>(left.count(), 0)) + grace_seconds;
}

Helper::Helper(const ToolOptions& options, const Patience& patience)
    : path_(find_helper(options)),
      directory_(options.temp_dir),
      child_(helper_command(options, path_, directory_.path()), Child::Channel::socket) {
  const wire::Bytes payload = receive_frame(wire::Kind::hello, patience, ErrorCode::unavailable);
  hello_ = wire::decode_hello(payload);
  if (hello_.protocol != wire::protocol_version || hello_.kernel_abi != HEDDLE_KERNEL_ABI ||
      hello_.version != HEDDLE_VERSION) {
    throw Error(
        ErrorCode::unavailable,
        fmt::format("{} is of heddle {} (protocol {}, kernel ABI {}), this library of {} ({}, {}): "
                    "install both from one build, or set HEDDLE_COMPILE_HELPER",
                    path_.string(), hello_.version.empty() ? "another version" : hello_.version,
                    hello_.protocol, hello_.kernel_abi, HEDDLE_VERSION, wire::protocol_version,
                    HEDDLE_KERNEL_ABI));
  }
}

wire::CompileReply Helper::compile(const wire::CompileRequest& request, const Patience& patience) {
  ++compiles_;
  const Child::Io sent = child_.send(wire::encode(request), patience);
  if (sent == Child::Io::out_of_patience) give_up(patience, "did not take the request in time");
  // Closed while sending: the code below reads the output that the helper wrote before its end.
  return wire::decode_reply(receive_frame(wire::Kind::reply, patience, ErrorCode::compile_failed));
}

wire::Bytes Helper::receive_frame(wire::Kind kind, const Patience& patience, ErrorCode broken) {
  const auto receive = [&](std::span<std::byte> bytes) {
    const Child::Io io = child_.receive(bytes, patience);
    if (io == Child::Io::out_of_patience) give_up(patience, "did not answer in time");
    if (io == Child::Io::closed) fail(broken, "ended");
  };
  const auto check = [&](const Status& status) {
    if (!status.ok()) fail(broken, "sent nonsense: " + std::string(status.message()));
  };
  wire::FrameHeader header;
  receive(std::as_writable_bytes(std::span(&header, 1)));
  check(wire::check_header(header, kind));
  wire::Bytes payload(header.payload_bytes);
  receive(payload);
  check(wire::check_payload(header, payload));
  return payload;
}

void Helper::give_up(const Patience& patience, const char* what) {
  if (patience.stopped()) fail(ErrorCode::cancelled, "was no longer wanted");
  fail(ErrorCode::deadline, what);
}

void Helper::fail(ErrorCode code, const std::string& what) {
  const Exit exit = child_.finish();
  const std::string output = child_.take_output();
  const bool was_killed = code == ErrorCode::deadline || code == ErrorCode::cancelled;
  std::string advice;
  if (code == ErrorCode::deadline) advice = fmt::format("; {}", out_of_time_advice);
  if (code == ErrorCode::unavailable) {  // the helper sent no Hello
    advice =
        "; it may be no heddle-compile: set HEDDLE_COMPILE_HELPER to the path of one, or leave it "
        "unset";
  }
  throw Error(code, fmt::format("{} {} ({}{}){}\n  output: {}", path_.string(), what,
                                was_killed ? "killed after that: " : "", exit.describe(), advice,
                                output.empty() ? "(none)" : output));
}

bool Helper::reusable() { return compiles_ < compiles_per_helper_max && child_.alive(); }

void Helper::abandon() noexcept {
  child_.abandon();
  directory_.abandon();
}

HelperPool::HelperPool(ToolOptions options)
    : options_(std::move(options)),
      owner_(getpid()),
      helpers_max_(std::max(1u, std::thread::hardware_concurrency())) {
  idle_.reserve(helpers_max_);  // reserved, so give_back() cannot fail
}

HelperPool::~HelperPool() {
  if (getpid() == owner_) return;
  for (const auto& helper : idle_) helper->abandon();
}

HelperPool::Lease HelperPool::lease(const Patience& patience, Want want) {
  if (getpid() != owner_) {
    throw Error(ErrorCode::unavailable,
                "this process was forked from the one that opened the gccjit compiler, whose "
                "helpers it may not use; open a backend of its own in the child");
  }
  std::unique_ptr<Helper> helper, surplus;
  {
    std::unique_lock lock(mutex_);
    const bool free = freed_.wait_until(lock, patience.stop(), patience.deadline(),
                                        [this] { return leased_ < helpers_max_; });
    if (!free) {
      throw Error(patience.stopped() ? ErrorCode::cancelled : ErrorCode::deadline,
                  fmt::format("none of {} heddle-compile processes became free", helpers_max_));
    }
    ++leased_;
    while (want == Want::any && !idle_.empty() && !helper) {
      helper = std::move(idle_.back());
      idle_.pop_back();
      if (!helper->reusable()) helper.reset();  // died while idle
    }
    // Unsuitable idle helpers fill the pool: one of them is ended.
    if (!helper && idle_.size() + leased_ > helpers_max_) {
      surplus = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!helper) {
    try {
      helper = std::make_unique<Helper>(options_, patience);
    } catch (...) {
      give_back(nullptr);
      throw;
    }
  }
  return {*this, std::move(helper)};
}

void HelperPool::give_back(std::unique_ptr<Helper> helper) noexcept {
  if (helper && !helper->reusable()) helper.reset();
  const std::scoped_lock lock(mutex_);
  --leased_;
  if (helper) idle_.push_back(std::move(helper));
  freed_.notify_one();
}

}  // namespace heddle::jit
