// A stand-in for a CUDA driver of the test's own, and what is heard of the ends of operations.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devices/cuda_device.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::dev {

/// Drivers are opened once in a process, so each test has a copy of the library.
class CudaTest : public testing::Test {
 protected:
  CudaTest() {
    std::filesystem::copy(test::cuda_standin, file);
    library_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    gpu = static_cast<const cuda_standin::Controls*>(::dlsym(library_, "cuda_standin"));
  }
  ~CudaTest() override {
    gpu->hold(false);
    EXPECT_EQ(gpu->live_handles(), 0u);
    EXPECT_EQ(gpu->live_allocations(), 0u);
    EXPECT_EQ(gpu->pushed_contexts(), 0u);
    ::dlclose(library_);
  }

  [[nodiscard]] Status refusal() const {
    Status why;
    EXPECT_EQ(cuda::open_driver(file, &why), nullptr);
    return why;
  }
  [[nodiscard]] std::shared_ptr<PhysicalDevice> open(int ordinal = 0,
                                                     bool check_each = false) const {
    Status why;
    const auto driver = cuda::open_driver(file, &why);
    EXPECT_TRUE(why.ok()) << why.to_string();
    const auto device = make_cuda_device(driver, ordinal, &why, check_each);
    EXPECT_TRUE(why.ok()) << why.to_string();
    return device;
  }

  /// The stand-in's kernels, for a GPU that has them in this shape.
  [[nodiscard]] static Image kernels(const LaunchShape& shape = {},
                                     const char* kind = "cubin-sm-90") {
    std::ifstream in(test::standin_kernels, std::ios::binary);
    const std::string read(std::istreambuf_iterator<char>(in), {});
    const auto bytes = std::as_bytes(std::span(read));
    return Image(kind, {bytes.begin(), bytes.end()}, checksum(bytes),
                 {{"add", shape}, {"fails", {}}, {"breaks_the_gpu", {}}, {"runs_on", {}}});
  }

  const TempDirectory here;
  const std::string file = (here.path() / "libcuda.so.1").string();
  const cuda_standin::Controls* gpu = nullptr;

 private:
  void* library_ = nullptr;
};

inline constexpr std::size_t add = 0, fails = 1, breaks_the_gpu = 2, runs_on = 3;

/// What a queue's marks told. Any thread.
class Told final : public Completions {
 public:
  void ended(std::uint64_t number, Status status) noexcept override {
    const std::lock_guard lock(mutex_);
    ends_.emplace_back(number, std::move(status));
    changed_.notify_all();
  }
  /// How mark `number` ended.
  Status wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    const auto told = [&] { return !ends_.empty() && ends_.back().first >= number; };
    if (!changed_.wait_for(lock, std::chrono::seconds(60), told))
      return Status(ErrorCode::deadline, "mark " + std::to_string(number) + " was not told of");
    for (const auto& [at, status] : ends_)
      if (at >= number) return status;
    return {};
  }
  std::vector<std::uint64_t> numbers() {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> all;
    for (const auto& [at, status] : ends_) all.push_back(at);
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::uint64_t, Status>> ends_;
};

/// A virtual device's: a queue and what it tells.
struct Timeline {
  explicit Timeline(PhysicalDevice& device) {
    const Status s = device.new_queue(told, &queue);
    EXPECT_TRUE(s.ok()) << s.to_string();
  }
  Told told;
  std::unique_ptr<Queue> queue;
};

/// Memory of a device with numbers in it.
class Numbers {
 public:
  Numbers(PhysicalDevice& device, std::size_t count) : device_(device), count_(count) {
    const Status s = device.allocate(bytes(), &data);
    EXPECT_TRUE(s.ok()) << s.to_string();
  }
  ~Numbers() { device_.release(data, bytes()); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(std::int32_t); }
  void* data = nullptr;

 private:
  PhysicalDevice& device_;
  std::size_t count_;
};

}  // namespace heddle::dev
