// See toolchain/helper_wire.hpp. Both ends run on one machine: numbers are sent in native byte
// order.
#include "jit/toolchain/helper_wire.hpp"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

namespace heddle::jit::wire {
namespace {

class Writer {
 public:
  explicit Writer(Kind kind) : bytes_(sizeof(FrameHeader)), kind_(kind) {}

  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    raw(&value, sizeof value);
  }
  void text(const std::string& value) {
    number<std::uint64_t>(value.size());
    raw(value.data(), value.size());
  }
  void blob(const Bytes& value) {
    number<std::uint64_t>(value.size());
    raw(value.data(), value.size());
  }

  Bytes finish() {
    FrameHeader header;
    header.kind = kind_;
    const auto payload = std::span<const std::byte>(bytes_).subspan(sizeof header);
    header.payload_bytes = payload.size();
    header.sum = checksum(payload);
    std::memcpy(bytes_.data(), &header, sizeof header);
    return std::move(bytes_);
  }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

  Bytes bytes_;
  Kind kind_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    const auto from = take(sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  bool flag() { return number<std::uint8_t>() != 0; }
  std::string text() {
    const auto from = take(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  Bytes blob() {
    const auto from = take(number<std::uint64_t>());
    return {from.begin(), from.end()};
  }
  void end() const {
    if (!rest_.empty()) malformed();
  }

 private:
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > rest_.size()) malformed();
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  [[noreturn]] static void malformed() {
    throw Error(ErrorCode::internal, "malformed message between libheddle and heddle-compile");
  }

  std::span<const std::byte> rest_;
};

}  // namespace

Bytes encode(const Hello& hello) {
  Writer out(Kind::hello);
  out.number(hello.protocol);
  out.number(hello.kernel_abi);
  out.text(hello.version);
  out.text(hello.compiler);
  out.text(hello.library);
  return out.finish();
}

Hello decode_hello(std::span<const std::byte> payload) {
  Reader in(payload);
  Hello hello;
  hello.protocol = in.number<std::uint32_t>();
  // The rest may differ in another version of the protocol.
  if (hello.protocol != protocol_version) return hello;
  hello.kernel_abi = in.number<std::uint32_t>();
  hello.version = in.text();
  hello.compiler = in.text();
  hello.library = in.text();
  in.end();
  return hello;
}

Bytes encode(const CompileRequest& request) {
  Writer out(Kind::request);
  out.text(request.unit_name);
  out.number<std::uint64_t>(request.kernels.size());
  for (const KernelText& kernel : request.kernels) {
    out.text(kernel.name);
    out.text(kernel.loop);
    out.number<std::uint64_t>(kernel.addresses.size());
    for (const auto& address : kernel.addresses) {
      out.number<std::uint8_t>(address ? 1 : 0);
      out.number<std::uint64_t>(address.value_or(0));
    }
  }
  out.number<std::uint8_t>(request.nvrtc ? 1 : 0);
  if (request.nvrtc) {
    out.text(request.nvrtc->library);
    out.number(request.nvrtc->major);
    out.text(request.nvrtc->source);
    out.number<std::uint64_t>(request.nvrtc->options.size());
    for (const std::string& option : request.nvrtc->options) out.text(option);
  }
  out.number(request.optimization_level);
  out.text(request.target);
  out.number<std::uint8_t>(request.fast_math);
  out.number<std::uint8_t>(request.trace_values);
  out.number<std::uint8_t>(request.want_dump);
  out.number(request.seconds_max);
  return out.finish();
}

CompileRequest decode_request(std::span<const std::byte> payload) {
  Reader in(payload);
  CompileRequest request;
  request.unit_name = in.text();
  for (auto left = in.number<std::uint64_t>(); left > 0; --left) {
    KernelText kernel;
    kernel.name = in.text();
    kernel.loop = in.text();
    for (auto count = in.number<std::uint64_t>(); count > 0; --count) {
      const bool embedded = in.flag();
      const auto address = in.number<std::uint64_t>();
      kernel.addresses.push_back(embedded ? std::optional(address) : std::nullopt);
    }
    request.kernels.push_back(std::move(kernel));
  }
  if (in.flag()) {
    wire::NvrtcRequest& nvrtc = request.nvrtc.emplace();
    nvrtc.library = in.text();
    nvrtc.major = in.number<std::uint32_t>();
    nvrtc.source = in.text();
    for (auto left = in.number<std::uint64_t>(); left > 0; --left)
      nvrtc.options.push_back(in.text());
  }
  request.optimization_level = in.number<std::uint32_t>();
  request.target = in.text();
  request.fast_math = in.flag();
  request.trace_values = in.flag();
  request.want_dump = in.flag();
  request.seconds_max = in.number<std::uint32_t>();
  in.end();
  return request;
}

Bytes encode(const CompileReply& reply) {
  Writer out(Kind::reply);
  out.number<std::uint8_t>(reply.ok);
  out.number<std::uint8_t>(reply.caller_at_fault);
  out.text(reply.error);
  out.blob(reply.library.bytes);
  out.number(reply.library.sum.high);
  out.number(reply.library.sum.low);
  out.text(reply.dump);
  out.text(reply.version);
  out.text(reply.file);
  return out.finish();
}

CompileReply decode_reply(std::span<const std::byte> payload) {
  Reader in(payload);
  CompileReply reply;
  reply.ok = in.flag();
  reply.caller_at_fault = in.flag();
  reply.error = in.text();
  reply.library.bytes = in.blob();
  reply.library.sum.high = in.number<std::uint64_t>();
  reply.library.sum.low = in.number<std::uint64_t>();
  reply.dump = in.text();
  reply.version = in.text();
  reply.file = in.text();
  in.end();
  return reply;
}

Status check_header(const FrameHeader& header, Kind expected) {
  if (header.magic != FrameHeader{}.magic || header.kind != expected ||
      header.payload_bytes > payload_bytes_max) {
    return Status(
        ErrorCode::unavailable,
        fmt::format("a frame begins with {:08x} kind {} of {} bytes (expected {:08x} kind "
                    "{} of at most {} bytes)",
                    header.magic, static_cast<std::uint32_t>(header.kind), header.payload_bytes,
                    FrameHeader{}.magic, static_cast<std::uint32_t>(expected), payload_bytes_max));
  }
  return {};
}

Status check_payload(const FrameHeader& header, std::span<const std::byte> payload) {
  if (checksum(payload) == header.sum) return {};
  return Status(ErrorCode::unavailable, "a frame was damaged on its way (its checksum differs)");
}

}  // namespace heddle::jit::wire
