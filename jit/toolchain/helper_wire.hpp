// What libheddle and heddle-compile say to each other over the helper's stdin, a socket: frames of
// a fixed header and a payload, each with a checksum. The helper speaks first (Hello); then every
// CompileRequest is answered by one CompileReply, or by the helper's end. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/kernel.h"
#include "jit/cache/library.hpp"

namespace heddle::jit::wire {

/// Raised with every change of this file: both sides must be of one build of heddle.
inline constexpr std::uint32_t protocol_version = 4;
/// No request or reply comes near this; a longer frame is a broken one.
inline constexpr std::uint64_t payload_bytes_max = std::uint64_t{512} << 20;

enum class Kind : std::uint32_t { hello = 1, request, reply };

struct FrameHeader {
  std::uint32_t magic = 0x6c646568;  // "hedl"
  Kind kind = Kind::hello;
  std::uint64_t payload_bytes = 0;
  Checksum sum;  ///< the payload's
};
static_assert(sizeof(FrameHeader) == 32);

struct Hello {
  std::uint32_t protocol = protocol_version;
  std::uint32_t kernel_abi = HEDDLE_KERNEL_ABI;
  std::string version;   ///< heddle's
  std::string compiler;  ///< "libgccjit 12.2.0, -march=x86-64-v3"
  std::string library;   ///< path of libgccjit
};

struct KernelText {
  std::string name;
  std::string loop;  ///< canonical text with names as comments
  std::vector<std::optional<std::uint64_t>> addresses;
};

/// What NVRTC is to compile, in place of loops. Without a source it says what it is.
struct NvrtcRequest {
  std::string library;      ///< path of NVRTC; empty: it is looked for
  std::uint32_t major = 0;  ///< of the driver's CUDA version: which NVRTC is looked for first
  std::string source;
  std::vector<std::string> options;
};

struct CompileRequest {
  std::string unit_name;
  std::vector<KernelText> kernels;
  std::optional<NvrtcRequest> nvrtc;
  std::uint32_t optimization_level = 3;
  std::string target;  ///< Target::to_string()
  bool fast_math = false;
  bool trace_values = false;
  bool want_dump = false;
  /// The helper ends itself and its children after this long, in case nobody is left to do it.
  std::uint32_t seconds_max = 60;
};

struct CompileReply {
  bool ok = false;
  bool caller_at_fault = false;  ///< not ok: the request was illegal (invalid_argument)
  std::string error;             ///< not ok: why
  Library library;               ///< ok; sum was taken when the file was read
  std::string dump;              ///< what libgccjit was told, as C-like text; when wanted
  std::string version;           ///< of NVRTC
  std::string file;              ///< of NVRTC
};

using Bytes = std::vector<std::byte>;

/// A whole frame, header included.
[[nodiscard]] Bytes encode(const Hello& hello);
[[nodiscard]] Bytes encode(const CompileRequest& request);
[[nodiscard]] Bytes encode(const CompileReply& reply);

/// ok, or what is wrong with a header that should announce `expected`.
[[nodiscard]] Status check_header(const FrameHeader& header, Kind expected);
/// ok, or that the payload is not the one that was sent.
[[nodiscard]] Status check_payload(const FrameHeader& header, std::span<const std::byte> payload);

// Inverses of encode() on a checked payload. Throw Error(internal) on malformed bytes.
[[nodiscard]] Hello decode_hello(std::span<const std::byte> payload);
[[nodiscard]] CompileRequest decode_request(std::span<const std::byte> payload);
[[nodiscard]] CompileReply decode_reply(std::span<const std::byte> payload);

}  // namespace heddle::jit::wire
