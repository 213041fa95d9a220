// The protocol of libheddle and heddle-compile over the helper's stdin, a socket: frames of a fixed
// header and a payload with a checksum. The helper speaks first (Hello); then a CompileReply, or
// the helper's end, answers each CompileRequest. Values; any thread.
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

/// Increased with every change of this file: both sides must be of one build of heddle.
inline constexpr std::uint32_t protocol_version = 4;
/// Far larger than any request or reply; a longer frame is malformed.
inline constexpr std::uint64_t payload_bytes_max = std::uint64_t{512} << 20;

enum class Kind : std::uint32_t { hello = 1, request, reply };

struct FrameHeader {
  std::uint32_t magic = 0x6c646568;  // "hedl"
  Kind kind = Kind::hello;
  std::uint64_t payload_bytes = 0;
  Checksum sum;  ///< of the payload
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

/// The input of NVRTC, in place of loops. An empty source asks for NVRTC's version.
struct NvrtcRequest {
  std::string library;      ///< path of NVRTC; empty: searched
  std::uint32_t major = 0;  ///< of the driver's CUDA version: the version of NVRTC to try first
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
  /// The helper ends itself and its children after this time, in case the host is gone.
  std::uint32_t seconds_max = 60;
};

struct CompileReply {
  bool ok = false;
  bool caller_at_fault = false;  ///< not ok: the request was illegal (invalid_argument)
  std::string error;             ///< not ok: the reason
  Library library;               ///< ok; the checksum was taken when the file was read
  std::string dump;              ///< libgccjit's input as C-like text; when wanted
  std::string version;           ///< of NVRTC
  std::string file;              ///< of NVRTC
};

using Bytes = std::vector<std::byte>;

/// A whole frame, header included.
[[nodiscard]] Bytes encode(const Hello& hello);
[[nodiscard]] Bytes encode(const CompileRequest& request);
[[nodiscard]] Bytes encode(const CompileReply& reply);

/// ok, or the fault of a header that should announce `expected`.
[[nodiscard]] Status check_header(const FrameHeader& header, Kind expected);
/// ok, or an error if the payload differs from the sent payload.
[[nodiscard]] Status check_payload(const FrameHeader& header, std::span<const std::byte> payload);

// Inverses of encode() on a checked payload. Throw Error(internal) on malformed bytes.
[[nodiscard]] Hello decode_hello(std::span<const std::byte> payload);
[[nodiscard]] CompileRequest decode_request(std::span<const std::byte> payload);
[[nodiscard]] CompileReply decode_reply(std::span<const std::byte> payload);

}  // namespace heddle::jit::wire
