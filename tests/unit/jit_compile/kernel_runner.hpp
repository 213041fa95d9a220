// Running compiled kernels by hand: loops from text, buffers as byte vectors. One thread.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/kernel.h"
#include "jit/toolchain/compiler.hpp"
#include "support/parsed.hpp"

namespace heddle::jit::testing {

/// Elements as the bytes of a buffer.
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> elements_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline KernelSource kernel_from(std::string name, const std::string& loop_text) {
  KernelSource kernel;
  kernel.name = std::move(name);
  kernel.loop = VerifiedLoop(parsed(loop_text));
  return kernel;
}

/// `text` with `by` wherever it says `what`.
inline std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

inline CompileUnit unit_from(std::string name, const std::string& loop_text) {
  CompileUnit unit;
  unit.kernels.push_back(kernel_from(name, loop_text));
  unit.name = std::move(name);
  return unit;
}

/// What was compiled, loaded into this process.
inline std::shared_ptr<const dev::Module> loaded(const Compiled& compiled,
                                                 dev::LoadOptions options = {}) {
  options.name = compiled.name;
  std::shared_ptr<const dev::Module> module;
  throw_if_failed(dev::load_on_host(compiled.image, options, &module));
  return module;
}

/// Calls a kernel with everything that is not given at rest.
inline void call_kernel(heddle_kernel_function function,
                        std::span<const heddle_kernel_buffer> buffers,
                        std::span<const std::int64_t> statics = {}, heddle_kernel_args args = {}) {
  heddle_kernel_status status{};
  args.struct_size = sizeof args;
  args.abi = HEDDLE_KERNEL_ABI;
  args.buffers = buffers.data();
  args.num_buffers = static_cast<std::uint32_t>(buffers.size());
  args.statics = statics.data();
  args.num_statics = static_cast<std::uint32_t>(statics.size());
  if (args.num_parts == 0) args.num_parts = 1;
  args.status = &status;
  function(&args);
}

/// The arguments of one call. Buffers are given in order and read back in place.
struct Call {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<std::int64_t> statics = {};
  std::uint32_t part = 0;
  std::uint32_t num_parts = 1;
  heddle_kernel_trace trace = nullptr;
  void* trace_context = nullptr;

  void run(heddle_kernel_function function) {
    std::vector<heddle_kernel_buffer> entries;
    for (auto& buffer : buffers) entries.push_back({buffer.data(), buffer.size()});
    heddle_kernel_args args{};
    args.part = part;
    args.num_parts = num_parts;
    args.trace = trace;
    args.trace_context = trace_context;
    call_kernel(function, entries, statics, args);
  }
};

}  // namespace heddle::jit::testing
