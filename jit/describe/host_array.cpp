// HostArray: allocation, initialisers and rendering.
#include "heddle/host_array.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <limits>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "files/descriptor.hpp"
#include "heddle/host_memory.hpp"
#include "heddle/status.hpp"
#include "jit/describe/host_storage.hpp"
#include "jit/value/element.hpp"
#include "jit/value/threefry.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle {
namespace {

std::size_t bytes_of(const ArrayType& type) {
  jit::require_dtype("host array", type.dtype);
  const auto bytes = type.num_bytes();
  if (!bytes) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("host array {}: extents must be 0 or more and the bytes must fit 63 bits",
                    type.to_string()));
  }
  return static_cast<std::size_t>(*bytes);
}

std::shared_ptr<void> allocate(const ArrayType& type, bool zero) {
  const std::size_t bytes = bytes_of(type);
  void* const data = allocate_host(bytes);
  if (data == nullptr) {
    throw Error(ErrorCode::exhausted,
                fmt::format("host array {}: no memory for {} bytes", type.to_string(), bytes));
  }
  if (zero) std::memset(data, 0, bytes);
  return {data, std::free};
}

void require_index(const ArrayType& type, std::int64_t k) {
  if (k < 0 || k >= *type.num_elements()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("element {} of host array {} (expected 0 <= k < {})", k,
                            type.to_string(), *type.num_elements()));
  }
}

}  // namespace

HostArray::HostArray(ArrayType type) : HostArray(type, allocate(type, true)) {}
HostArray::HostArray(ArrayType type, std::shared_ptr<void> data)
    : type_(std::move(type)),
      state_(std::make_shared<jit::HostStorage>(std::move(data))),
      data_(state_->memory.get()) {}

HostArray HostArray::copy_of(ArrayType type, const void* data, std::size_t count) {
  const std::size_t bytes = bytes_of(type);
  if (count != static_cast<std::size_t>(*type.num_elements())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host array {} takes {} values, got {}", type.to_string(),
                            *type.num_elements(), count));
  }
  auto memory = allocate(type, false);
  if (bytes > 0) std::memcpy(memory.get(), data, bytes);
  return {std::move(type), std::move(memory)};
}

HostArray HostArray::borrow(ArrayType type, void* data) {
  if (bytes_of(type) > 0 && data == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host array {}: borrowed memory is null", type.to_string()));
  }
  return {std::move(type), std::shared_ptr<void>(data, [](void*) {})};
}

HostArray HostArray::fill(ArrayType type, std::span<const double> values, bool strict) {
  static_cast<void>(bytes_of(type));
  const auto count = static_cast<std::size_t>(*type.num_elements());
  if (values.empty() ? count > 0 : strict && values.size() != count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("fill of host array {}: got {} values (expected {})", type.to_string(),
                            values.size(), strict ? std::to_string(count) : "at least one"));
  }
  auto memory = allocate(type, false);
  HostArray array(std::move(type), std::move(memory));
  const sched::DefaultFloating floating;
  for (std::size_t k = 0; k < count; ++k) {
    jit::store_element(array.type_.dtype, array.data(), k,
                       jit::Scalar::of_float(DType::f64, values[k % values.size()]));
  }
  return array;
}

HostArray HostArray::range(ArrayType type) {
  HostArray array(std::move(type));
  const std::int64_t count = array.num_elements();
  const sched::DefaultFloating floating;
  for (std::int64_t k = 0; k < count; ++k) {
    jit::store_element(array.type_.dtype, array.data(), static_cast<std::size_t>(k),
                       jit::Scalar::of_int(DType::i64, k));
  }
  return array;
}

HostArray HostArray::uniform(ArrayType type, std::uint64_t seed) {
  jit::require_dtype("host array", type.dtype);
  if (!is_floating(type.dtype)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("uniform fill of host array {}: expected a floating dtype", type.to_string()));
  }
  HostArray array(std::move(type));
  const std::int64_t count = array.num_elements();
  // As many random bits as the type holds exactly, so no value rounds up to 1.
  const DType dtype = array.type_.dtype;
  const int bits = dtype == DType::f64   ? 53
                   : dtype == DType::f32 ? 24
                   : dtype == DType::f16 ? 11
                                         : 8;
  const double scale = 1.0 / static_cast<double>(std::uint64_t{1} << bits);
  for (std::int64_t k = 0; k < count; ++k) {
    const std::uint64_t random =
        jit::threefry2x32(seed, static_cast<std::uint64_t>(k), jit::threefry_rounds);
    jit::store_element(
        dtype, array.data(), static_cast<std::size_t>(k),
        jit::Scalar::of_float(DType::f64, static_cast<double>(random >> (64 - bits)) * scale));
  }
  return array;
}

HostArray HostArray::map_file(ArrayType type, const std::string& path) {
  const std::size_t bytes = bytes_of(type);
  // Non-blocking: open() of a pipe without a writer must not wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw Error(ErrorCode::not_found,
                fmt::format("cannot open '{}' for host array {}: {}", path,
                            type.to_string(), files::errno_text(errno)));
  }
  struct stat file{};
  const bool known = ::fstat(fd, &file) == 0;
  const auto file_bytes = known ? static_cast<std::size_t>(file.st_size) : 0;
  if (!known || !S_ISREG(file.st_mode) || file_bytes != bytes) {
    ::close(fd);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' has {} bytes, host array {} needs exactly {} in a regular file",
                            path, file_bytes, type.to_string(), bytes));
  }
  if (bytes == 0) {
    ::close(fd);
    return HostArray(std::move(type));
  }
  // Private: writes through the array do not change the file.
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    throw Error(ErrorCode::exhausted, fmt::format("cannot map '{}' ({} bytes): {}", path,
                                                  bytes, files::errno_text(error)));
  }
  return {std::move(type), std::shared_ptr<void>(data, [bytes](void* p) { ::munmap(p, bytes); })};
}

void HostArray::look(bool writes, const std::source_location& where) const noexcept {
  // acquire: pairs with the release in uses_of(): the record of uses behind the hook is visible.
  if (auto* const told = state_->look.load(std::memory_order_acquire)) told(*state_, writes, where);
}

double HostArray::at(std::int64_t k, std::source_location where) const {
  require_index(type_, k);
  look(false, where);
  const sched::DefaultFloating floating;
  const auto value = jit::load_element(type_.dtype, data(), static_cast<std::size_t>(k));
  return jit::convert(value, DType::f64).f;
}

void HostArray::set(std::int64_t k, double value, std::source_location where) const {
  require_index(type_, k);
  look(true, where);
  const sched::DefaultFloating floating;
  jit::store_element(type_.dtype, data(), static_cast<std::size_t>(k),
                     jit::Scalar::of_float(DType::f64, value));
}

void HostArray::set_written(std::source_location where) const noexcept {
  look(true, where);
  // release: pairs with the acquire of the runtime, which then reads the host's writes.
  state_->written.store(true, std::memory_order_release);
}

void HostArray::require(DType dtype, const std::source_location& where) const {
  if (dtype != type_.dtype) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host array {} read as {}; ask for the type it has", type_.to_string(),
                            name(dtype)));
  }
  look(false, where);
}

std::string HostArray::to_string(std::source_location where) const {
  look(false, where);
  return fmt::format("{} {}", type_.to_string(), render_array(type_, data()));
}

namespace {

class Renderer {
 public:
  Renderer(const ArrayType& type, const void* data, int edge)
      : type_(type), data_(data), edge_(edge) {}

  std::string render() {
    axis(0, 0);
    return std::move(text_);
  }

 private:
  /// Bounds the text for any number of axes.
  static constexpr std::size_t text_max = 8192;
  static constexpr int whole = std::numeric_limits<int>::max();
  [[nodiscard]] bool is_long() const noexcept { return edge_ != whole && text_.size() >= text_max; }

  void axis(std::size_t depth, std::int64_t offset) {
    if (depth == type_.dims.size()) {
      element(offset);
      return;
    }
    const std::int64_t extent = type_.dims[depth];
    std::int64_t stride = 1;
    for (std::size_t inner = depth + 1; inner < type_.dims.size(); ++inner)
      stride *= type_.dims[inner];
    text_ += '[';
    for (std::int64_t i = 0; i < extent && !is_long(); ++i) {
      if (i > 0)
        text_ += depth + 1 < type_.dims.size() ? ",\n" + std::string(depth + 1, ' ') : ", ";
      if (edge_ != whole && extent > 2 * std::int64_t{edge_} + 1 && i == edge_) {
        text_ += "...";
        i = extent - edge_ - 1;
        continue;
      }
      axis(depth + 1, offset + i * stride);
    }
    if (is_long()) text_ += "...";
    text_ += ']';
  }

  void element(std::int64_t k) {
    const auto value = jit::load_element(type_.dtype, data_, static_cast<std::size_t>(k));
    if (is_floating(type_.dtype)) {
      text_ += fmt::format("{:.6g}", value.f);
    } else if (type_.dtype == DType::u64) {
      text_ += fmt::format("{}", static_cast<std::uint64_t>(value.i));
    } else if (type_.dtype == DType::bool_) {
      text_ += value.i != 0 ? "true" : "false";
    } else {
      text_ += fmt::format("{}", value.i);
    }
  }

  const ArrayType& type_;
  const void* data_;
  int edge_;
  std::string text_;
};

}  // namespace

std::string render_array(const ArrayType& type, const void* data, int edge) {
  static_cast<void>(bytes_of(type));
  const sched::DefaultFloating floating;
  return Renderer(type, data, edge).render();
}

}  // namespace heddle
